#include "ops/logits/chunks.h"

#include <doctest/doctest.h>

using namespace spillway;
using namespace spillway::ops;

TEST_CASE("chunks of logits stay within their bytes whatever the vocabulary") {
  for (const int64_t vocabulary : {int64_t{32}, int64_t{49152}, int64_t{151936}}) {
    LogitShape shape{.dtype = DType::kBF16, .tokens = 4096, .width = 576, .vocabulary = vocabulary};
    CHECK(logit_chunk_rows(shape) * vocabulary * 4 <= kLogitsBytes);
    shape.w_gradient = true;
    CHECK(logit_chunk_rows(shape) * vocabulary * 4 <= kLogitsBytesWithWeights);
  }
}
