#include "train/generator.h"

#include <doctest/doctest.h>

#include <array>
#include <filesystem>
#include <vector>

#include "backend/testing/delayed_device.h"

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
  const std::array<float, 4> equal = {1.0f, 2.0f, 2.0f, 2.0f};
  CHECK(sample(equal, {.temperature = 1, .top_k = 2}, 0.999) == 2);
}

TEST_CASE("a device with memory of its own, and captured work, generates what the CPU does") {
  const std::filesystem::path model = std::filesystem::path(SPILLWAY_SOURCE_DIR) / "tests/golden/models/qwen3";
  ThreadPool pool(1);
  const auto answer = [&](Device& device) {
    Generator generator(model, {}, 16, pool, device);
    const Generated result = generator.generate(std::vector<int32_t>{3, 5, 7}, {}, {.max_new_tokens = 12}, nullptr);
    return std::pair(result.ids, result.logprobs);
  };
  spillway::testing::DelayedDevice device(1, 10);
  CHECK(answer(device) == answer(cpu_device()));
  CHECK(device.replays() > 0);
}
