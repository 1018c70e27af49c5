// Tokens of a tokenizer that need not be the model's own.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace spillway {

// Throws InputError at `model` where the model has no embedding for one of the ids: the tokenizer is another model's.
void check_token_ids(std::span<const int32_t> ids, int64_t vocab_size, const std::string& model);

}  // namespace spillway
