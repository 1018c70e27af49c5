// The choice of tokens that a model asks for by its generation_config.json.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json_field.h"

namespace spillway {

struct GenerationDefaults {
  double repetition_penalty = 1;          // 1: none
  std::vector<int32_t> suppressed;        // tokens that are never chosen (suppress_tokens)
  std::vector<std::string> not_followed;  // the keys that change answers in transformers, and not here
};

// Reads a generation_config.json. Throws InputError for values that transformers does not take.
[[nodiscard]] GenerationDefaults read_generation_defaults(const JsonField& json, int64_t vocab_size);

}  // namespace spillway
