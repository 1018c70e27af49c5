#include "ops/logits/chunks.h"

#include <doctest/doctest.h>

using namespace spillway;
using namespace spillway::ops;

TEST_CASE("chunks of logits stay within their bytes whatever the vocabulary") {
  for (const int64_t vocabulary : {int64_t{32}, int64_t{49152}, int64_t{151936}}) {
    CHECK(logit_chunk_rows(4096, vocabulary) * vocabulary * 4 <= kLogitsBytes);
  }
}
