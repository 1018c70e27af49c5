// The texts of the named chat templates: src/text/chat_templates/NAME.jinja, embedded by CMake.
#pragma once

#include <string_view>

namespace spillway {

extern const std::string_view kAlpaca, kChatml, kCohere, kDeepseekV2, kDeepseekV3, kExaone, kExaone4, kFalconH1, kGemma,
    kGemma3, kGemma3n, kGemma4, kJamba, kLlama3, kLlama32Vision, kLlama4, kLlava, kMetharme, kMistralV1, kMistralV2v3,
    kMistralV3Tekken, kMistralV7Tekken, kNemotronH, kPhi3, kPhi35, kPhi4, kPixtral, kQwen2Vl, kQwen3, kQwen35, kQwen25;

}  // namespace spillway
