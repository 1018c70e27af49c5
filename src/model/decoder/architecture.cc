#include "model/decoder/architecture.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace spillway {
namespace {

constexpr std::array kArchitectures = {&architectures::kLlama,
                                       &architectures::kMistral,
                                       &architectures::kQwen2,
                                       &architectures::kQwen3,
                                       &architectures::kGemma2,
                                       &architectures::kGemma3,
                                       &architectures::kPhi3,
                                       &architectures::kGlm4,
                                       &architectures::kMinistral3,
                                       &architectures::kGranite,
                                       &architectures::kSmolLm3,
                                       &architectures::kOlmo2,
                                       &architectures::kArcee,
                                       &architectures::kSeedOss,
                                       &architectures::kGemma,
                                       &architectures::kOlmo3,
                                       &architectures::kCohere,
                                       &architectures::kCohere2,
                                       &architectures::kMixtral,
                                       &architectures::kQwen2Moe,
                                       &architectures::kQwen3Moe,
                                       &architectures::kOlmoe,
                                       &architectures::kGlm4Moe,
                                       &architectures::kGptOss,
                                       &architectures::kDeepseekV2,
                                       &architectures::kDeepseekV3,
                                       &architectures::kGlm4MoeLite,
                                       &architectures::kGemma4,
                                       &architectures::kGemma4Unified,
                                       &architectures::kGraniteMoe,
                                       &architectures::kGraniteMoeHybrid,
                                       &architectures::kMiniMaxM2,
                                       &architectures::kLfm2,
                                       &architectures::kLfm2Moe,
                                       &architectures::kQwen3Next,
                                       &architectures::kQwen35,
                                       &architectures::kQwen35Moe,
                                       &architectures::kAfmoe,
                                       &architectures::kApertus,
                                       &architectures::kNemotron,
                                       &architectures::kHunyuanV1Dense,
                                       &architectures::kMistral4,
                                       &architectures::kNemotronH,
                                       &architectures::kFalconH1,
                                       &architectures::kBamba,
                                       &architectures::kJamba};

// Models that are to come, by what config.json calls them.
constexpr std::string_view kToCome[] = {"GPTNeoXForCausalLM",    "PhiForCausalLM",
                                        "FalconForCausalLM",     "StableLmForCausalLM",
                                        "Starcoder2ForCausalLM", "GPTJForCausalLM",
                                        "Gemma3nForCausalLM",    "Gemma3nForConditionalGeneration",
                                        "Llama4ForCausalLM",     "DbrxForCausalLM",
                                        "KimiLinearForCausalLM", "DeepseekV4ForCausalLM",
                                        "GlmMoeDsaForCausalLM",  "Llama4ForConditionalGeneration"};

// "a, b or c" of what `name_of` says of each.
template <typename NameOf>
std::string names(const NameOf& name_of) {
  std::vector<std::string_view> result;
  for (const Architecture* architecture : kArchitectures) result.push_back(name_of(*architecture));
  return joined_names(result);
}

}  // namespace

const Architecture& find_architecture(const JsonField& json) {
  const std::vector<std::string> architectures = json["architectures"].strings_or_none();
  const std::string model_type = json["model_type"].string_or("");
  if (model_type.empty() && architectures.empty()) {
    throw input_error(json.where(), "expected model_type {}, got none; add it", known_model_types());
  }
  const std::string_view wanted = architectures.empty() ? std::string_view(model_type) : architectures.front();
  for (const Architecture* known : kArchitectures) {
    const bool is_meant = architectures.empty() ? wanted == known->model_type
                                                : wanted == known->name || wanted == classifier_name(*known, false) ||
                                                      wanted == classifier_name(*known, true);
    if (!is_meant) continue;
    // Transformers goes by it, whatever the architectures say.
    if (model_type != known->model_type) {
      throw input_error(json.where(), "expected model_type {} beside {}, got {}; correct the one that is wrong",
                        known->model_type, known->name, model_type.empty() ? "none" : model_type);
    }
    return *known;
  }
  if (std::find(std::begin(kToCome), std::end(kToCome), wanted) != std::end(kToCome))
    throw input_error(json.where(),
                      "expected a model of a kind that is there (docs/models.md), got {}, which is not yet supported; "
                      "use another",
                      quote(wanted));
  throw input_error(json.where(), "expected architectures to name {}, got {}; use a model of one of these",
                    names([](const Architecture& a) { return a.name; }), wanted.empty() ? "none" : quote(wanted));
}

std::span<const Architecture* const> all_architectures() { return kArchitectures; }

const Architecture* find_model_type(std::string_view model_type) {
  const auto found = std::find_if(kArchitectures.begin(), kArchitectures.end(),
                                  [&](const Architecture* known) { return known->model_type == model_type; });
  return found == kArchitectures.end() ? nullptr : *found;
}

std::string known_model_types() {
  return names([](const Architecture& a) { return a.model_type; });
}

std::string classifier_name(const Architecture& architecture, bool is_of_tokens) {
  constexpr std::string_view kText = "ForCausalLM";
  const std::string_view own = architecture.name.substr(0, architecture.name.size() - kText.size());
  return std::string(architecture.classifier.empty() ? own : architecture.classifier) +
         (is_of_tokens ? "ForTokenClassification" : "ForSequenceClassification");
}

bool is_classifier(const JsonField& json, bool is_of_tokens) {
  const std::vector<std::string> architectures = json["architectures"].strings_or_none();
  return !architectures.empty() && architectures.front() == classifier_name(find_architecture(json), is_of_tokens);
}

}  // namespace spillway
