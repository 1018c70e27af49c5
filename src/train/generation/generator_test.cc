#include "train/generation/generator.h"

#include <doctest/doctest.h>

#include <array>
#include <filesystem>
#include <vector>

#include "backend/testing/delayed_device.h"
#include "train/generation/cache_rows.h"

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

TEST_CASE("rows of the caches are handed out from the lowest, in multiples of a tile, and come back whole") {
  CacheRows rows(256);
  CHECK(rows.take(65) == 0);
  CHECK(rows.take(1) == 128);
  CHECK(rows.take(64) == 192);
  CHECK(!rows.take(1));
  rows.give_back(128, 1);
  CHECK(!rows.take(65));
  rows.give_back(0, 65);
  CHECK(rows.take(192) == 0);
  rows.give_back(192, 64);
  rows.give_back(0, 192);
  CHECK(rows.take(256) == 0);
}

TEST_CASE("a device with memory of its own, and captured work, generates what the CPU does") {
  const std::filesystem::path model = std::filesystem::path(SPILLWAY_SOURCE_DIR) / "tests/golden/models/qwen3";
  ThreadPool pool(1);
  const auto answer = [&](Device& device) {
    const Prompt prompt{{3, 5, 7}, {.max_new_tokens = 12}};
    Generator generator(model, {}, generation_sizes({prompt.sequence_tokens()}), pool, device);
    const std::vector<Generated> result = generator.generate({&prompt, 1}, {.logprobs = true});
    return std::pair(result[0].ids, result[0].logprobs);
  };
  spillway::testing::DelayedDevice device(1, 10);
  CHECK(answer(device) == answer(cpu_device()));
  CHECK(device.replays() > 0);
}
