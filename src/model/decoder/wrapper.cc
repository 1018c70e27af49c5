#include "model/decoder/wrapper.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/json_field.h"
#include "base/text.h"
#include "model/decoder/architecture.h"
#include "model/decoder/parts.h"

namespace spillway {
namespace {

constexpr const char* kTextConfig = "text_config";

// Some have no architectures, or nothing that is a list of names: who reads the config says so.
std::string wrapper_of(const nlohmann::json& json) {
  if (!json.is_object() || !json.contains(kTextConfig) || !json[kTextConfig].is_object()) return "";
  const auto found = json.find("architectures");
  if (found == json.end() || !found->is_array() || found->empty() || !found->front().is_string()) return "";
  auto name = found->front().get<std::string>();
  return name.ends_with("ForConditionalGeneration") ? name : "";
}

// Throws InputError for a wrapper that computes its text in another way than a model that stands alone.
void refuse_other_text(std::string_view wrapper, std::string_view where) {
  if (wrapper == "PaliGemmaForConditionalGeneration") {
    throw input_error(where, "expected a model whose tokens see those before them alone, got {}, {}; use another",
                      wrapper, "whose prompts see all of themselves");
  }
  if (wrapper == "Cohere2VisionForConditionalGeneration" || wrapper == "AyaVisionForConditionalGeneration") {
    throw input_error(where, "expected a model whose logits are scaled by logit_scale, got {}, {}; use another",
                      wrapper, "which leaves them as they are");
  }
}

// Adds the sizes that are left out, as transformers' class of the text model has them.
void add_default_sizes(const Architecture& architecture, nlohmann::json& text) {
  const Architecture::Sizes& sizes = architecture.default_sizes;
  for (const auto& [key, size] : {std::pair("vocab_size", sizes.vocab_size),
                                  {"hidden_size", sizes.hidden_size},
                                  {"intermediate_size", sizes.intermediate_size},
                                  {"num_hidden_layers", sizes.num_hidden_layers},
                                  {"num_attention_heads", sizes.num_attention_heads}}) {
    if (size > 0 && (!text.contains(key) || text[key].is_null())) text[key] = size;
  }
}

// Transformers ties the head by the wrapper's key, whose default depends on the class, some classes by that of the text
// where it is true, and none where the files have another head. Returns whether the two leave it open.
bool lift_tie(const nlohmann::json& whole, nlohmann::json& text) {
  constexpr const char* kTie = "tie_word_embeddings";
  const auto said = whole.find(kTie);
  if (said == whole.end() || !said->is_boolean()) return true;
  const auto own = text.find(kTie);
  const bool differs = own != text.end() && own->is_boolean() && *own != *said;
  text[kTie] = differs || said->get<bool>();  // one of two is true
  return differs;
}

constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kStems = {{
    // In files, and in transformers' class.
    {"model.language_model.", "model.language_model."},
    {"language_model.model.", "model.language_model."},
    {"model.text_model.", "model.text_model."},
}};

bool has_beginning(const SafetensorsFolder& files, std::string_view beginning) {
  const auto first = files.tensors().lower_bound(beginning);
  return first != files.tensors().end() && first->first.starts_with(beginning);
}

}  // namespace

TextConfig read_text_config(std::string_view config_json, std::string_view where) {
  const JsonDocument document(config_json, where);
  const nlohmann::json& whole = document.json();
  const std::string wrapper = wrapper_of(whole);
  if (wrapper.empty()) return {.json = whole, .where = std::string(where)};
  refuse_other_text(wrapper, where);
  TextConfig result{.json = whole[kTextConfig], .where = fmt::format("{}: {}", where, kTextConfig), .wrapper = wrapper};
  nlohmann::json& text = result.json;
  text.erase("architectures");  // transformers goes by the type alone
  const auto type = text.find("model_type");
  const std::string named = type != text.end() && type->is_string() ? type->get<std::string>() : "";
  const Architecture* architecture = find_model_type(named);
  if (architecture == nullptr) {
    throw input_error(fmt::format("{}.model_type", result.where),
                      "expected a text model of {} inside {}, got {}; use a model with one of these",
                      known_model_types(), wrapper, named.empty() ? "none" : quote(named));
  }
  add_default_sizes(*architecture, text);
  for (const char* key : {"bos_token_id", "eos_token_id", "dtype", "torch_dtype"}) {
    if (whole.contains(key) && !whole[key].is_null()) text[key] = whole[key];
  }
  text["quantization_config"] = whole.value("quantization_config", nlohmann::json());
  result.files_say_tie = lift_tie(whole, text);
  return result;
}

nlohmann::ordered_json& text_config_of(nlohmann::ordered_json& config_json) { return config_json[kTextConfig]; }

WeightNames default_wrapper_names() {
  const std::string stem(kStems[0].first);
  return {.stem = stem, .stem_in_files = stem, .is_part = true};
}

WeightNames wrapper_names(const SafetensorsFolder& files) {
  for (const auto& [in_files, in_class] : kStems) {
    if (!has_beginning(files, in_files)) continue;
    WeightNames names{.stem = std::string(in_class), .stem_in_files = std::string(in_files), .is_part = true};
    if (in_files == "language_model.model.") names.head_in_files = "language_model.lm_head";
    return names;
  }
  throw input_error(files.path().string(), "expected weights of a text model under {}, got none; {}",
                    joined_names(std::array{kStems[0].first, kStems[1].first, kStems[2].first}),
                    "use a folder as transformers saves it");
}

}  // namespace spillway
