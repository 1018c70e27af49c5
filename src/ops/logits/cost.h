// The cost of products with a head's weights that go through the rows in chunks.
#pragma once

#include "graph/operation.h"
#include "ops/logits/chunks.h"

namespace spillway::ops {

// Returns the cost of `products` over all rows; each reads w once for each chunk.
[[nodiscard]] inline Cost logit_cost(const LogitShape& s, int products) {
  const int64_t chunks = div_ceil(s.tokens, logit_chunk_rows(s.tokens, s.vocabulary));
  const double flops = 2.0 * static_cast<double>(s.tokens) * static_cast<double>(s.width * s.vocabulary);
  const auto w_bytes = static_cast<double>(chunks * s.vocabulary * s.width * size_of(s.dtype));
  return {.flops = products * flops,
          .bytes = products * w_bytes + 2.0 * static_cast<double>(s.tokens * s.width * size_of(s.dtype)),
          .matrix_product = true};
}

}  // namespace spillway::ops
