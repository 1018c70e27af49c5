#include "cli/token_ids.h"

#include <algorithm>

#include "base/error.h"

namespace spillway {

void check_token_ids(std::span<const int32_t> ids, int64_t vocab_size, const std::string& model) {
  const auto largest = std::max_element(ids.begin(), ids.end());
  if (largest == ids.end() || *largest < vocab_size) return;
  throw input_error(model,
                    "expected token ids below vocab_size {}, got {}; use the tokenizer that belongs to the model",
                    vocab_size, *largest);
}

}  // namespace spillway
