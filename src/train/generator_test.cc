#include "train/generator.h"

#include <doctest/doctest.h>

#include <array>
#include <vector>

using namespace spillway;
using namespace spillway::train;

TEST_CASE("the repetition penalty makes each seen token less likely, once") {
  // As RepetitionPenaltyLogitsProcessor(1.25) of transformers does.
  std::array<float, 4> logits = {2.5f, -1.0f, 2.4f, 0.0f};
  penalise_repetition(logits, std::vector<int32_t>{0, 1, 0, 3}, 1.25);
  CHECK(logits == std::array<float, 4>{2.0f, -1.25f, 2.4f, 0.0f});
  CHECK(sample(logits, {}, 0) == 2);
}

TEST_CASE("top-k and top-p leave the most likely tokens to choose from") {
  const std::array<float, 4> logits = {0.0f, 3.0f, 2.0f, 1.0f};
  CHECK(sample(logits, {.temperature = 1}, 0.0) == 1);
  CHECK(sample(logits, {.temperature = 1}, 0.999) == 0);
  CHECK(sample(logits, {.temperature = 1, .top_k = 2}, 0.999) == 2);
  CHECK(sample(logits, {.temperature = 1, .top_p = 0.5}, 0.999) == 1);
  CHECK(sample(logits, {.temperature = 100, .top_k = 3}, 0.999) == 3);
}
