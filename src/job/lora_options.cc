#include "job/lora_options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <type_traits>

#include "base/error.h"
#include "base/text.h"
#include "job/lora_pattern.h"
#include "model/adapter.h"
#include "model/adapter_targets.h"
#include "model/layout.h"
#include "model/path_pattern.h"

namespace spillway::train {
namespace {

// Throws InputError for layers that the model does not have.
void check_layers(const ParameterTable& parameters, const LoraOptions& lora) {
  std::set<int64_t> there;
  for (const Parameter& p : parameters) {
    if (const auto layer = layer_of(p.module, lora.layers_pattern)) there.insert(*layer);
  }
  if (there.empty() && !lora.layers_to_transform.empty() && !lora.layers_pattern.empty())
    throw input_error("peft_layers_pattern",
                      "expected the name before the numbers of the model's layers, such as layers, got {}; correct it",
                      fmt::join(lora.layers_pattern, ", "));
  for (const int64_t layer : lora.layers_to_transform) {
    if (there.contains(layer)) continue;
    throw input_error("peft_layers_to_transform",
                      "expected layers of the model, {} of them, got {}; correct the number", there.size(), layer);
  }
}

// Sets the rank and alpha of each target module by the first pattern that matches it.
void resolve_patterns(const config::AdapterSettings& adapter, const ParameterTable& parameters, LoraOptions& lora) {
  check_layers(parameters, lora);
  if (adapter.rank_pattern.empty() && adapter.alpha_pattern.empty()) return;
  const std::vector<std::string> targets = lora_targets(parameters, lora, "lora_target_modules");
  const auto resolve = [&](const config::PatternNumber& one, auto& numbers) {
    bool is_used = false;
    PathPattern path(one.pattern, one.where);
    for (const std::string& module : targets) {
      if (!path.matches(module)) continue;
      is_used = true;
      numbers.emplace(module, static_cast<typename std::decay_t<decltype(numbers)>::mapped_type>(one.number));
    }
    if (!is_used) {
      throw input_error(one.where, "expected the end of paths such as {}, got {}; change the pattern", targets.front(),
                        quote(one.pattern));
    }
  };
  for (const config::PatternNumber& one : adapter.rank_pattern) resolve(one, lora.ranks);
  for (const config::PatternNumber& one : adapter.alpha_pattern) resolve(one, lora.alphas);
}

// The enumerations of configs and of models have the same values.
static_assert(static_cast<int>(config::LoraStart::kLoftq) == static_cast<int>(LoraStart::kLoftq));

std::set<std::string, std::less<>> usual_targets(const Model& model) {
  if (!model.video()) return {"q_proj", "v_proj"};
  const std::vector<std::string>& names = model.video()->lora_targets;
  return {names.begin(), names.end()};
}

// The first layer of a list of modules can also be named by the list: FastVideo's `to_out` is diffusers' `to_out.0`.
void name_first_of_lists(const ParameterTable& parameters, std::set<std::string, std::less<>>& targets) {
  std::set<std::string, std::less<>> known;
  for (const Parameter& p : parameters) {
    for (const std::string_view name : names_of_path(p.module)) known.emplace(name);
  }
  std::set<std::string, std::less<>> named;
  for (const std::string& target : targets) {
    const std::string first = target + ".0";
    named.insert(!known.contains(target) && known.contains(first) ? first : target);
  }
  targets = std::move(named);
}

// Recipes list the layers of Llama for models of any kind: leaves out those that this one lacks, with a warning, if it
// has others that are named, as PEFT does. Other names that it lacks are refused later, as they may be misspelled.
void leave_out_missing(const ParameterTable& parameters, std::set<std::string, std::less<>>& targets,
                       std::vector<std::string>& notes) {
  constexpr std::string_view kOfLlama[] = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"};
  std::set<std::string, std::less<>> known;
  for (const Parameter& p : parameters) {
    for (const std::string_view name : names_of_path(p.module)) known.emplace(name);
  }
  std::vector<std::string> missing;
  for (const std::string_view name : kOfLlama)
    if (targets.contains(name) && !known.contains(name)) missing.emplace_back(name);
  if (missing.empty() || missing.size() == targets.size()) return;
  for (const std::string& name : missing) targets.erase(name);
  notes.push_back(fmt::format("warning: [lora_target_modules] the model has no layers named {}: they are left out",
                              fmt::join(missing, ", ")));
}

// Gives names of modules PEFT's meaning, or all linear layers in their place. Returns the tensors of twice the rank.
std::set<std::string, std::less<>> name_targets(const ParameterTable& parameters, bool all_linear, LoraOptions& lora) {
  std::set<std::string, std::less<>> doubled = name_tensors(parameters, lora, "lora_target_modules");
  if (!all_linear) return doubled;
  // As in axolotl both keys apply: a named module is one of the linear layers anyway, or is not a layer.
  (void)lora_targets(parameters, lora, "lora_target_modules");
  lora.target_modules.clear();
  LoraOptions all{.r = lora.r};
  doubled = name_tensors(parameters, all, "lora_target_linear");
  lora.target_modules = std::move(all.target_modules);
  lora.target_parameters.merge(all.target_parameters);
  if (lora.target_modules.empty() && !lora.target_parameters.empty()) {
    const std::vector<std::string> modules = lora_targets(parameters, {}, "lora_target_linear");
    lora.target_modules = {modules.begin(), modules.end()};
  }
  return doubled;
}

LoraOptions fresh_lora(const config::AdapterSettings& adapter, const Model& model, std::vector<std::string>& notes) {
  LoraOptions lora{.r = adapter.r,
                   .alpha = adapter.alpha,
                   .rslora = adapter.rslora,
                   .dora = adapter.dora,
                   .dropout = adapter.dropout};
  const ParameterTable parameters = parameters_of(model);
  const config::TargetModules& targets = adapter.target_modules;
  lora.target_parameters = {adapter.target_parameters.begin(), adapter.target_parameters.end()};
  if (!targets.pattern.empty()) {
    lora.target_modules = modules_matching(parameters, targets.pattern, "lora_target_modules");
  } else if (!targets.names.empty() || !adapter.target_linear) {
    lora.target_modules = {targets.names.begin(), targets.names.end()};
    if (lora.target_modules.empty() && lora.target_parameters.empty()) lora.target_modules = usual_targets(model);
    name_first_of_lists(parameters, lora.target_modules);
    leave_out_missing(parameters, lora.target_modules, notes);
  }
  std::set<std::string, std::less<>> doubled;
  if (!targets.names.empty() || adapter.target_linear) doubled = name_targets(parameters, adapter.target_linear, lora);
  lora.modules_to_save = {adapter.modules_to_save.begin(), adapter.modules_to_save.end()};
  lora.layers_to_transform = {adapter.layers_to_transform.begin(), adapter.layers_to_transform.end()};
  lora.layers_pattern = adapter.layers_pattern;
  lora.start = static_cast<LoraStart>(adapter.init.start);
  lora.restarts = adapter.restarts.has_value();
  lora.start_iterations = adapter.init.iterations;
  resolve_patterns(adapter, parameters, lora);
  for (const std::string& tensor : doubled) {
    lora.ranks.emplace(tensor, 2 * lora.r);
    lora.alphas.emplace(tensor, 2 * lora.alpha);
  }
  check_target_tensors(parameters, lora,
                       !adapter.target_parameters.empty() ? "lora_target_parameters"
                       : adapter.target_linear            ? "lora_target_linear"
                                                          : "lora_target_modules");
  return lora;
}

// Returns true if the files of an adapter in diffusers' layout say its alpha.
bool says_alpha(const std::filesystem::path& folder) {
  return !diffusers_lora_config(SafetensorsFile(adapter_config_place(folder))).empty();
}

// Compares a config with the adapter that it goes on from, and notes what differs.
class Differences {
 public:
  Differences(const config::AdapterSettings& said, const LoraOptions& held, std::vector<std::string>& notes)
      : said_(said), held_(held), notes_(notes) {}

  void note_numbers() {
    if (said_.r != 0 && said_.r != held_.r) note("lora_r", held_.r, said_.r);
    if (said_.alpha != 0 && said_.alpha != held_.alpha) note("lora_alpha", held_.alpha, said_.alpha);
    if (said_.says_dropout && said_.dropout != held_.dropout) note("lora_dropout", held_.dropout, said_.dropout);
    if (said_.rslora && !held_.rslora) note("peft_use_rslora", false, true);
    if (said_.dora && !held_.dora) note("peft_use_dora", false, true);
  }

  // Notes if the config selects other layers or modules than the adapter has. Throws InputError for those that the
  // model does not have.
  void note_modules(const Model& model) {
    const bool has_targets = said_.target_linear || !said_.target_modules.empty();
    const bool has_patterns = !said_.rank_pattern.empty() || !said_.alpha_pattern.empty();
    const bool has_layers = !said_.layers_to_transform.empty();
    const bool has_tensors = !said_.target_parameters.empty();
    if (!has_targets && !has_patterns && !has_layers && !has_tensors && said_.modules_to_save.empty()) return;
    config::AdapterSettings fresh = said_;
    if (fresh.r == 0) fresh.r = held_.r;
    if (fresh.alpha == 0) fresh.alpha = held_.alpha;
    const LoraOptions ours = fresh_lora(fresh, model, notes_);
    const ParameterTable parameters = parameters_of(model);
    const std::string_view key = said_.target_linear ? "lora_target_linear" : "lora_target_modules";
    const auto theirs = lora_targets(parameters, held_, said_.model_dir);
    if (has_targets || has_layers)
      note_count(has_targets ? key : "peft_layers_to_transform", "layers", theirs, lora_targets(parameters, ours, key));
    if (has_tensors) {
      check_target_tensors(parameters, ours, "lora_target_parameters");
      note_count("lora_target_parameters", "tensors", names_of(held_.target_parameters),
                 names_of(ours.target_parameters));
    }
    if (!said_.modules_to_save.empty())
      note_count("lora_modules_to_save", "weights", saved_weights(parameters, held_, said_.model_dir),
                 saved_weights(parameters, ours, "lora_modules_to_save"));
    const auto differs = [&](const auto& number_of) {
      return std::any_of(theirs.begin(), theirs.end(), [&](const std::string& module) {
        return is_adapted(ours, module) && number_of(held_, module) != number_of(ours, module);
      });
    };
    const auto rank = [](const LoraOptions& lora, const std::string& module) { return lora.rank_of(module); };
    const auto alpha = [](const LoraOptions& lora, const std::string& module) { return lora.alpha_of(module); };
    if (!said_.rank_pattern.empty() && differs(rank)) note("lora_rank_pattern", "another", "the config's");
    if (!said_.alpha_pattern.empty() && differs(alpha)) note("lora_alpha_pattern", "another", "the config's");
  }

 private:
  static std::vector<std::string> names_of(const auto& set) { return {set.begin(), set.end()}; }
  void note(std::string_view key, const auto& held, const auto& said) {
    notes_.push_back(fmt::format("warning: {} is {}, as {} says, and not {}", key, held, said_.model_dir, said));
  }
  void note_count(std::string_view key, std::string_view what, const std::vector<std::string>& held,
                  const std::vector<std::string>& said) {
    if (held == said) return;
    notes_.push_back(fmt::format("warning: {} means {} {}, and {} has {} {}: these are trained", key, said.size(), what,
                                 said_.model_dir, held.size(), held.size() == said.size() ? "others" : "of them"));
  }

  const config::AdapterSettings& said_;
  const LoraOptions& held_;
  std::vector<std::string>& notes_;
};

// Returns the options of a continued adapter: its own rank, scale and layers, as in PEFT, whatever the config says.
LoraOptions continued_lora(const config::AdapterSettings& adapter, const Model& model,
                           std::vector<std::string>& notes) {
  LoraOptions lora = read_adapter_options(adapter.model_dir);
  // Files of diffusers may lack alpha; if they have one, it takes precedence.
  const bool is_diffusers = layout_of_adapter(adapter.model_dir) == Layout::kDiffusers;
  if (is_diffusers && adapter.alpha != 0 && !says_alpha(adapter.model_dir)) lora.alpha = adapter.alpha;
  Differences differences(adapter, lora, notes);
  differences.note_numbers();
  differences.note_modules(model);
  if (adapter.disables_dropout) lora.dropout = 0;
  return lora;
}

std::string_view head_of(const Model& model) {
  if (!model.text() || !model.text()->score) return "predicts tokens";
  return model.text()->score->is_of_tokens ? "scores steps" : "scores texts";
}

// Returns the model for a continued adapter, which may have a score; that must be of the kind that is trained.
ModelPtr fit_to_continued(const ModelPtr& model, const std::string& folder) {
  ModelPtr fitted = fit_to_adapter(model, read_adapter_options(folder), folder);
  const std::string_view trained = head_of(*model), found = head_of(*fitted);
  if (found != trained)
    throw input_error("lora_model_dir",
                      "expected an adapter of a model that {}, got one of a model that {}, {}; name another", trained,
                      found, quote(folder));
  return fitted;
}

}  // namespace

LoraOptions lora_options(const config::AdapterSettings& adapter, ModelPtr& model, std::vector<std::string>& notes) {
  if (!adapter.model_dir.empty()) {
    model = fit_to_continued(model, adapter.model_dir);
    LoraOptions lora = continued_lora(adapter, *model, notes);
    lora.restarts = adapter.restarts.has_value();
    return lora;
  }
  LoraOptions lora = fresh_lora(adapter, *model, notes);
  (void)lora_targets(parameters_of(*model), lora, "lora_target_modules");
  model = untie_head(model, lora);
  (void)saved_weights(parameters_of(*model), lora, "lora_modules_to_save");
  return lora;
}

}  // namespace spillway::train
