#include "model/adapter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/json.h"
#include "base/json_field.h"
#include "base/random.h"
#include "base/text.h"
#include "hub/cache.h"
#include "io/file.h"
#include "io/safetensors.h"
#include "model/adapter_targets.h"
#include "model/layout.h"
#include "model/path_pattern.h"

namespace spillway {
namespace {

// Keys of PEFT's LoraConfig under which the numbers would differ from those of plain LoRA.
constexpr std::array<std::string_view, 8> kUnsupported = {
    "use_qalora", "lora_bias",           "fan_in_fan_out",         "layer_replication", "trainable_token_indices",
    "use_bdlora", "ensure_weight_tying", "alora_invocation_tokens"};
// Values of init_lora_weights (as prefixes) with which PEFT takes a part out of the base weights before it trains.
constexpr std::array<std::string_view, 5> kChangesBase = {"pissa", "corda", "olora", "loftq", "lora_ga"};
constexpr int64_t kMaxRank = 65536;

void refuse_unsupported(const JsonField& json) {
  if (const std::string type = json["peft_type"].string_or("LORA"); type != "LORA") {
    throw input_error(json.where(), "expected peft_type LORA, got {}; use a LoRA adapter", quote(type));
  }
  if (const std::string bias = json["bias"].string_or("none"); bias != "none") {
    throw input_error(json.where(), "expected bias none, got {}; use an adapter without biases", quote(bias));
  }
  for (const std::string_view key : kUnsupported) {
    if (json[key].is_in_use()) {
      throw input_error(json.where(), "expected a plain LoRA adapter, got one with {}; use one without it", key);
    }
  }
  const std::string start = json["init_lora_weights"].is_string() ? json["init_lora_weights"].string_or("") : "";
  for (const std::string_view prefix : kChangesBase) {
    if (!start.starts_with(prefix)) continue;
    throw input_error(json.where(), "expected an adapter of unchanged base weights, got init_lora_weights {}; {}",
                      quote(start), "convert it to plain LoRA with PEFT (path_initial_model_for_weight_conversion)");
  }
}

// The modules that an adapter's file holds an A for.
std::set<std::string, std::less<>> stored_targets(const std::filesystem::path& folder) {
  const std::string pattern = lora_name("*", 'A');
  const size_t star = pattern.find('*');
  const std::string_view before = std::string_view(pattern).substr(0, star);
  const std::string_view after = std::string_view(pattern).substr(star + 1);
  const SafetensorsFolder file = open_adapter(folder);
  std::set<std::string, std::less<>> result;
  for (const auto& [name, entry] : file.tensors()) {
    if (name.size() <= pattern.size() || !name.starts_with(before) || !name.ends_with(after)) continue;
    result.insert(name.substr(before.size(), name.size() - before.size() - after.size()));
  }
  if (result.empty()) {
    throw input_error(folder.string(), "expected tensors named {}, got none; give the folder of a LoRA adapter",
                      pattern);
  }
  return result;
}

// Takes the modules of tensors of mixtures out of `stored`, and returns the paths of these tensors. A module has one
// tensor, or PEFT has wrapped gate_up_proj, or up_proj, first, and then down_proj.
std::set<std::string, std::less<>> take_tensors(const LoraOptions& listed, std::set<std::string, std::less<>>& stored) {
  std::set<std::string, std::less<>> tensors;
  if (listed.target_parameters.empty()) return tensors;
  constexpr std::string_view kInner = ".base_layer";
  std::erase_if(stored, [&](const std::string& path) {
    const bool is_inner = path.ends_with(kInner);
    const std::string module = is_inner ? path.substr(0, path.size() - kInner.size()) : path;
    const bool is_outer = !is_inner && stored.contains(fmt::format("{}{}", path, kInner));
    for (const std::string_view name : {"gate_up_proj", "up_proj", "down_proj", "weight"}) {
      if (is_inner ? name == "down_proj" : is_outer && name.ends_with("up_proj")) continue;
      std::string tensor = fmt::format("{}.{}", module, name);
      if (!is_adapted_tensor(listed, tensor)) continue;
      // A short name such as down_proj means the tensors of experts alone.
      if (name != "weight" && last_name(module) != "experts") continue;
      tensors.insert(std::move(tensor));
      return true;
    }
    return false;
  });
  return tensors;
}

// PEFT leaves tensors of layers that target_modules does not name aside: the file and the config are of two trainings.
void check_listed(const LoraOptions& listed, const std::set<std::string, std::less<>>& stored, std::string_view where) {
  for (const std::string& module : stored) {
    if (is_adapted(listed, module)) continue;
    throw input_error(where, "expected target_modules to name every layer that has tensors, got none for {}; {}",
                      quote(module), "use the adapter_config.json that belongs to adapter_model.safetensors");
  }
}

// The rows of each A are the rank, which a config may leave out where it is PEFT's default; of a tensor of experts so
// many times the rank, which the model's tensors are compared with.
void check_rank(const LoraOptions& lora, const std::filesystem::path& folder, const std::string& where) {
  const SafetensorsFolder file = open_adapter(folder);
  for (const std::string& module : lora.target_modules) {
    const StoredTensor* a = file.find(lora_name(module, 'A'));
    if (a == nullptr || a->shape.size() != 2 || a->shape[0] == lora.rank_of(module)) continue;
    throw input_error(where, "expected r to be the rank of the tensors, {}, got {}; write \"r\": {}", a->shape[0],
                      lora.rank_of(module), a->shape[0]);
  }
}

// The numbers that a pattern of PEFT's gives to modules: a regular expression for the end of a path behind a dot, or
// for all of it. Of several the first counts, in the order of their texts.
template <typename Number, typename Read>
std::map<std::string, Number, std::less<>> numbers_by_module(const JsonField& patterns,
                                                             const std::set<std::string, std::less<>>& modules,
                                                             const Read& read) {
  std::map<std::string, Number, std::less<>> result;
  if (!patterns.is_in_use()) return result;
  for (const auto& [pattern, field] : patterns.members()) {
    const Number number = read(field);
    PathPattern path(pattern, field.where());
    for (const std::string& module : modules) {
      if (path.matches(module)) result.emplace(module, number);
    }
  }
  return result;
}

// A number by module as patterns: the last name of a kind of layer where it holds for all that are adapted, else paths.
template <typename Number>
nlohmann::ordered_json patterns_of(const std::map<std::string, Number, std::less<>>& numbers,
                                   const std::vector<std::string>& targets) {
  std::map<std::string_view, std::set<std::optional<Number>>> kinds;
  for (const std::string& module : targets) {
    const auto found = numbers.find(module);
    kinds[last_name(module)].insert(found == numbers.end() ? std::optional<Number>() : found->second);
  }
  nlohmann::ordered_json result = nlohmann::ordered_json::object();
  for (const auto& [module, number] : numbers) {
    const bool is_whole_kind = kinds[last_name(module)].size() == 1;
    result[is_whole_kind ? std::string(last_name(module)) : module] = number;
  }
  return result;
}

}  // namespace

ModelPtr untie_head(ModelPtr model, const LoraOptions& lora) {
  ModelPtr untied = model->text() ? model->text()->with_own_head() : nullptr;
  if (!untied) return model;
  const ParameterTable parameters = parameters_of(*untied);
  const bool trains_one = std::any_of(parameters.begin(), parameters.end(), [&](const Parameter& p) {
    const bool was_tied = p.role == ParameterRole::kHead || !p.copy_in_files.empty();
    return was_tied && is_saved_in_full(lora, p.name);
  });
  return trains_one ? untied : model;
}

namespace {

// As the adapter's tensors have it.
ScoreHead score_head_of(const SafetensorsFolder& adapter) {
  const StoredTensor* score = adapter.find(adapter_tensor_name("score.weight"));
  const bool is_of_steps = score && !score->shape.empty() && score->shape[0] == kStepScores.labels;
  if (!is_of_steps) return {};
  ScoreHead steps = kStepScores;
  steps.has_bias = adapter.find(adapter_tensor_name("score.bias")) != nullptr;
  return steps;
}

}  // namespace

ModelPtr fit_to_adapter(ModelPtr model, const LoraOptions& lora, const std::filesystem::path& folder) {
  const SafetensorsFolder files = open_adapter(folder);
  if (is_saved_in_full(lora, "score.weight")) {
    if (!model->text())
      throw input_error(folder.string(),
                        "expected an adapter of a model that reads no text, got one with a score; name another");
    model = model->text()->with_score(score_head_of(files), {});
  }
  model = untie_head(std::move(model), lora);
  for (const Parameter& p : parameters_of(*model)) {
    if (p.role != ParameterRole::kEmbedding) continue;
    const StoredTensor* stored = files.find(adapter_tensor_name(p.name));
    if (stored && !stored->shape.empty() && stored->shape[0] > p.shape[0])
      return model->text()->with_vocab_size(stored->shape[0]);
  }
  return model;
}

LoraOptions parse_adapter_config(std::string_view text, std::string_view where) {
  const JsonDocument document(text, where);
  const JsonField json = document.root();
  refuse_unsupported(json);
  LoraOptions lora;
  lora.r = json["r"].integer_or(8, 1, kMaxRank);
  lora.alpha = json.has("lora_alpha") ? json["lora_alpha"].real(0, 1e9) : 8;  // PEFT's default; null is its error, too
  lora.dropout = json["lora_dropout"].real_or(0, 0, 1);
  lora.rslora = json["use_rslora"].boolean_or(false);
  lora.dora = json["use_dora"].boolean_or(false);
  if (const JsonField layers = json["layers_to_transform"]; !layers.is_null()) {
    for (const int64_t layer : layers.integers(0, kMaxRank)) lora.layers_to_transform.insert(layer);
  }
  if (json["layers_pattern"].is_string()) {
    lora.layers_pattern = {json["layers_pattern"].string()};
  } else {
    lora.layers_pattern = json["layers_pattern"].strings_or_none();
  }
  for (std::string& name : json["target_parameters"].strings_or_none()) lora.target_parameters.insert(std::move(name));
  for (std::string& name : json["modules_to_save"].strings_or_none()) lora.modules_to_save.insert(std::move(name));
  // PEFT names the heads of classifiers of all kinds; a decoder has the other.
  if (const std::string task = json["task_type"].string_or(""); task == "SEQ_CLS" || task == "TOKEN_CLS")
    lora.modules_to_save.erase("classifier");
  if (!json["target_modules"].is_string()) {
    for (std::string& name : json["target_modules"].strings_or_none()) lora.target_modules.insert(std::move(name));
  }
  return lora;
}

std::filesystem::path adapter_config_place(const std::filesystem::path& folder) {
  const bool is_diffusers = layout_of_adapter(folder) == Layout::kDiffusers;
  return folder / (is_diffusers ? "pytorch_lora_weights.safetensors" : "adapter_config.json");
}

namespace {

// The text of an adapter_config.json, or what says the same. A file of diffusers that says nothing has the rank of its
// tensors, and an alpha that is as large, which is what diffusers takes.
std::string config_text(const std::filesystem::path& folder) {
  const std::filesystem::path path = adapter_config_place(folder);
  if (layout_of_adapter(folder) == Layout::kTransformers) return read_file(path, 4 * kMiB);
  const SafetensorsFile file(path);
  if (std::string said = diffusers_lora_config(file); !said.empty()) return said;
  const SafetensorsFolder factors = open_adapter(folder);
  for (const std::string& module : stored_targets(folder)) {
    const StoredTensor* a = factors.find(lora_name(module, 'A'));
    if (a != nullptr && !a->shape.empty()) return fmt::format(R"({{"r": {0}, "lora_alpha": {0}}})", a->shape[0]);
  }
  return "{}";
}

}  // namespace

LoraOptions read_adapter_options(const std::filesystem::path& folder) {
  std::error_code error;
  const std::filesystem::path path = adapter_config_place(folder);
  if (!std::filesystem::exists(path, error) && has_weights(folder)) {
    throw input_error(folder.string(), "expected the folder of a LoRA adapter, got one of a whole model; {}",
                      "name the model itself, or the folder of an adapter");
  }
  const std::string text = config_text(folder);
  LoraOptions lora = parse_adapter_config(text, path.string());
  // The tensors decide, since the file may give a pattern, and may list layers that this model does not have.
  std::set<std::string, std::less<>> stored = stored_targets(folder);
  std::set<std::string, std::less<>> tensors = take_tensors(lora, stored);
  if (!lora.target_modules.empty()) check_listed(lora, stored, path.string());
  lora.target_modules = std::move(stored);
  std::set<std::string, std::less<>> adapted = lora.target_modules;
  adapted.merge(tensors);
  const JsonDocument document(text, path.string());
  lora.ranks = numbers_by_module<int64_t>(document.root()["rank_pattern"], adapted,
                                          [](const JsonField& field) { return field.integer(1, kMaxRank); });
  lora.alphas = numbers_by_module<double>(document.root()["alpha_pattern"], adapted,
                                          [](const JsonField& field) { return field.real(0, 1e9); });
  check_rank(lora, folder, path.string());
  return lora;
}

bool has_score(const ParameterTable& parameters) {
  return std::any_of(parameters.begin(), parameters.end(), [](const Parameter& p) { return p.is_score(); });
}

namespace {

// PEFT's name for what the model is for.
std::string_view task_of(const ParameterTable& parameters) {
  const auto score = std::find_if(parameters.begin(), parameters.end(),
                                  [](const Parameter& p) { return p.role == ParameterRole::kScore; });
  if (score == parameters.end()) return "CAUSAL_LM";
  return score->shape[0] == kStepScores.labels ? "TOKEN_CLS" : "SEQ_CLS";
}

}  // namespace

std::string adapter_config_json(const ParameterTable& parameters, const LoraOptions& lora,
                                std::string_view base_model) {
  nlohmann::ordered_json json = {
      {"base_model_name_or_path", base_model},
      {"bias", "none"},
      {"fan_in_fan_out", false},
      {"inference_mode", true},
      {"init_lora_weights",
       lora.start == LoraStart::kGaussian ? nlohmann::ordered_json("gaussian") : nlohmann::ordered_json(true)},
      {"lora_alpha", lora.alpha},
      {"lora_dropout", lora.dropout},
      {"modules_to_save", nullptr},
      {"peft_type", "LORA"},
      {"r", lora.r},
      {"target_modules", target_names(parameters, lora)},
      {"task_type", task_of(parameters)},
      {"use_dora", lora.dora},
      {"use_rslora", lora.rslora},
  };
  // A snapshot of the hub goes by the model's name there, and its commit.
  if (const hub::Repository known = hub::repository_of(base_model); !known.id.empty()) {
    json["base_model_name_or_path"] = known.id;
    json["revision"] = known.revision;
  }
  const std::vector<std::string> targets = lora_targets(parameters, lora, "lora_target_modules");
  if (!lora.ranks.empty()) json["rank_pattern"] = patterns_of(lora.ranks, targets);
  if (!lora.alphas.empty()) json["alpha_pattern"] = patterns_of(lora.alphas, targets);
  if (!lora.layers_to_transform.empty()) json["layers_to_transform"] = lora.layers_to_transform;
  if (!lora.layers_pattern.empty()) json["layers_pattern"] = lora.layers_pattern;
  if (!lora.modules_to_save.empty()) json["modules_to_save"] = lora.modules_to_save;
  if (!lora.target_parameters.empty()) json["target_parameters"] = lora.target_parameters;
  if (lora.alpha == std::floor(lora.alpha)) json["lora_alpha"] = static_cast<int64_t>(lora.alpha);
  return json_text(json, 2) + "\n";
}

}  // namespace spillway
