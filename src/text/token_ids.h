// Checks tokens of a tokenizer that need not be the model's own.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace spillway::text {

// Throws InputError at `where` if the model has no embedding for the id: the tokenizer is another model's.
void check_token_id(int32_t id, int64_t vocab_size, std::string_view where);
// Does the same for each of several ids.
void check_token_ids(std::span<const int32_t> ids, int64_t vocab_size, std::string_view where);

}  // namespace spillway::text
