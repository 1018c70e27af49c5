#include "data/clips/clip_batch.h"

#include <doctest/doctest.h>

#include "data/clips/timestep_embedding.h"

namespace spillway::data {
namespace {

constexpr ClipDemands kDemands{.channels = 2,
                               .patch = {2, 1, 3},
                               .max_positions = 8,
                               .text_width = 3,
                               .image_width = 2,
                               .image_channels = 1,
                               .timestep_size = 8};

// Every value tells what it is and where it comes from.
ClipSample sample_of(const ClipShape& shape, float base, int64_t text_len, int64_t image_rows) {
  ClipSample sample{.shape = shape, .timestep = 250, .sigma = 0.25F, .text_len = text_len, .image_rows = image_rows};
  for (int64_t i = 0; i < shape.elems(); ++i) {
    sample.latents.push_back(base + static_cast<float>(i));
    sample.noise.push_back(base + static_cast<float>(1000 + 3 * i));
  }
  for (int64_t i = 0; i < shape.elems() / shape.channels; ++i)
    sample.first_frame.push_back(base + static_cast<float>(5000 + i));
  sample.text.assign(static_cast<size_t>(text_len * 3), base);
  sample.image.assign(static_cast<size_t>(image_rows * 2), base + 1);
  return sample;
}

// Written as the definitions are: over every coordinate.
struct Expected {
  std::vector<float> patches, target;
  std::vector<int32_t> positions;
};
Expected expected_of(const ClipSample& sample) {
  Expected want;
  const ClipShape& s = sample.shape;
  const auto [pt, ph, pw] = kDemands.patch;
  const auto place = [&](int64_t c, int64_t t, int64_t y, int64_t x) {
    return static_cast<size_t>(((c * s.frames + t) * s.height + y) * s.width + x);
  };
  for (int64_t t = 0; t < s.frames; t += pt) {
    for (int64_t y = 0; y < s.height; y += ph) {
      for (int64_t x = 0; x < s.width; x += pw) {
        for (const int64_t at : {t / pt, y / ph, x / pw}) want.positions.push_back(static_cast<int32_t>(at));
        for (int64_t c = 0; c < s.channels + 1; ++c) {
          for (int64_t i = 0; i < pt * ph * pw; ++i) {
            const int64_t dt = i / (ph * pw), dy = i / pw % ph, dx = i % pw;
            if (c == s.channels) {
              want.patches.push_back(sample.first_frame[place(0, t + dt, y + dy, x + dx)]);
            } else {
              const size_t at = place(c, t + dt, y + dy, x + dx);
              want.patches.push_back((1 - sample.sigma) * sample.latents[at] + sample.sigma * sample.noise[at]);
            }
          }
        }
        for (int64_t i = 0; i < pt * ph * pw; ++i) {
          for (int64_t c = 0; c < s.channels; ++c) {
            const size_t at = place(c, t + i / (ph * pw), y + i / pw % ph, x + i % pw);
            want.target.push_back(sample.noise[at] - sample.latents[at]);
          }
        }
      }
    }
  }
  return want;
}

std::vector<float> joined(std::vector<float> a, const std::vector<float>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

TEST_CASE("clips of several shapes become one stream of patches") {
  const ClipSample a = sample_of({2, 4, 2, 6}, 0, 2, 1), b = sample_of({2, 2, 3, 3}, 100, 2, 2);
  MicroBatch batch;
  add_to_micro_batch(batch, a, kDemands);
  add_to_micro_batch(batch, b, kDemands);
  const Expected of_a = expected_of(a), of_b = expected_of(b);
  CHECK(batch.column(kPatches) == joined(of_a.patches, of_b.patches));
  CHECK(batch.column(kFlowTarget) == joined(of_a.target, of_b.target));
  std::vector<int32_t> positions = of_a.positions;
  positions.insert(positions.end(), of_b.positions.begin(), of_b.positions.end());
  CHECK(batch.positions == positions);
  CHECK(batch.seq_offsets == std::vector<int32_t>{0, 8, 11});
  CHECK((batch.rows == 2 && batch.targets == 2 && batch.tokens() == 11));
  CHECK(batch.column(kClipText) == joined(a.text, b.text));
  CHECK(batch.index_column(kTextOffsets) == std::vector<int32_t>{0, 2, 4});
  CHECK(batch.column(kClipImage) == joined(a.image, b.image));
  CHECK(batch.index_column(kImageOffsets) == std::vector<int32_t>{0, 1, 3});
  CHECK(batch.column(kSigma) == std::vector<float>{0.25F, 0.25F});
  std::vector<float> embedding(16);
  fill_timestep_embedding(std::vector<float>{250, 250}, 8, embedding);
  CHECK(batch.column(kTimestepEmbedding) == embedding);

  // A batch that is cleared is filled anew, in the same room.
  batch.clear();
  add_to_micro_batch(batch, b, kDemands);
  CHECK(batch.column(kPatches) == of_b.patches);
  CHECK(batch.seq_offsets == std::vector<int32_t>{0, 3});
  CHECK(batch.index_column(kImageOffsets) == std::vector<int32_t>{0, 2});
}

TEST_CASE("a model without images gets no columns of them") {
  ClipDemands demands = kDemands;
  demands.image_width = demands.image_channels = 0;
  ClipSample sample = sample_of({2, 2, 3, 3}, 0, 1, 0);
  sample.first_frame.clear();
  MicroBatch batch;
  add_to_micro_batch(batch, sample, demands);
  for (const MicroBatch::Numbers& one : batch.numbers) CHECK(one.name != kClipImage);
  for (const MicroBatch::Indices& one : batch.indices) CHECK(one.name != kImageOffsets);
  CHECK(batch.column(kPatches).size() == 2 * 2 * 3 * 3);
}

TEST_CASE("a prediction in the target's layout becomes latents again") {
  const ClipSample sample = sample_of({2, 4, 2, 6}, 0, 1, 1);
  const std::vector<float> latents = unpatchify(expected_of(sample).target, sample.shape, kDemands.patch);
  REQUIRE(latents.size() == sample.latents.size());
  for (size_t i = 0; i < latents.size(); ++i) CHECK(latents[i] == sample.noise[i] - sample.latents[i]);
}

}  // namespace spillway::data
