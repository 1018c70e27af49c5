#include "text/token_ids.h"

#include <algorithm>

#include "base/error.h"

namespace spillway::text {

void check_token_id(int32_t id, int64_t vocab_size, std::string_view where) {
  if (id < vocab_size) return;
  throw input_error(
      where, "expected token ids below the model's vocab_size {}, got {}; use the tokenizer that belongs to the model",
      vocab_size, id);
}

void check_token_ids(std::span<const int32_t> ids, int64_t vocab_size, std::string_view where) {
  if (!ids.empty()) check_token_id(*std::max_element(ids.begin(), ids.end()), vocab_size, where);
}

}  // namespace spillway::text
