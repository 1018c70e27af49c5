// The chat templates that a config can name, with axolotl's names for them.
#include <algorithm>
#include <array>

#include "text/chat_template.h"
#include "text/chat_templates/sources.h"

namespace spillway::text {
namespace {

struct Builtin {
  std::string_view name;
  const std::string_view& source;
};

constexpr std::array kBuiltins = {
    Builtin{"alpaca", kAlpaca},
    Builtin{"aya", kCohere},
    Builtin{"chatml", kChatml},
    Builtin{"cohere", kCohere},
    Builtin{"deepseek_v2", kDeepseekV2},
    Builtin{"deepseek_v3", kDeepseekV3},
    Builtin{"exaone", kExaone},
    Builtin{"exaone4", kExaone4},
    Builtin{"falcon_h1", kFalconH1},
    Builtin{"gemma", kGemma},
    Builtin{"gemma3", kGemma3},
    Builtin{"gemma3n", kGemma3n},
    Builtin{"gemma4", kGemma4},
    Builtin{"gemma4_unified", kGemma4},
    Builtin{"jamba", kJamba},
    Builtin{"llama3", kLlama3},
    Builtin{"llama3_2_vision", kLlama32Vision},
    Builtin{"llama4", kLlama4},
    Builtin{"llava", kLlava},
    Builtin{"metharme", kMetharme},
    Builtin{"mistral_v1", kMistralV1},
    Builtin{"mistral_v2v3", kMistralV2v3},
    Builtin{"mistral_v3_tekken", kMistralV3Tekken},
    Builtin{"mistral_v7_tekken", kMistralV7Tekken},
    Builtin{"nemotron_h", kNemotronH},
    Builtin{"phi_3", kPhi3},
    Builtin{"phi_35", kPhi35},
    Builtin{"phi_4", kPhi4},
    Builtin{"pixtral", kPixtral},
    Builtin{"qwen2_vl", kQwen2Vl},
    Builtin{"qwen3", kQwen3},
    Builtin{"qwen3_5", kQwen35},
    Builtin{"qwen_25", kQwen25},
};

}  // namespace

std::optional<std::string_view> builtin_chat_template(std::string_view name) {
  const auto* found =
      std::find_if(kBuiltins.begin(), kBuiltins.end(), [&](const Builtin& b) { return b.name == name; });
  return found == kBuiltins.end() ? std::nullopt : std::optional(found->source);
}

std::vector<std::string_view> builtin_chat_template_names() {
  std::vector<std::string_view> names;
  for (const Builtin& builtin : kBuiltins) names.push_back(builtin.name);
  return names;
}

}  // namespace spillway::text
