#include "data/clips/clip_batch.h"

#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "base/math.h"
#include "base/sizes.h"
#include "data/clips/timestep_embedding.h"

namespace spillway::data {
namespace {

// Calls visit(frame, row, column) for each patch of a clip, in this order.
template <typename Visit>
void for_each_patch(const ClipShape& shape, const std::array<int64_t, 3>& patch, const Visit& visit) {
  for (int64_t frame = 0; frame < shape.frames / patch[0]; ++frame) {
    for (int64_t row = 0; row < shape.height / patch[1]; ++row) {
      for (int64_t column = 0; column < shape.width / patch[2]; ++column) visit(frame, row, column);
    }
  }
}

// Where the lines of pixels of patches are in latents [channels, frames, height, width].
struct PatchLines {
  ClipShape shape;
  std::array<int64_t, 3> patch;

  // The first pixel of a line of a patch at (frame, row, column): that of the channel, the frame and the row in it.
  [[nodiscard]] int64_t at(int64_t frame, int64_t row, int64_t column, int64_t channel, int64_t frame_in,
                           int64_t row_in) const {
    const int64_t t = frame * patch[0] + frame_in, y = row * patch[1] + row_in;
    return ((channel * shape.frames + t) * shape.height + y) * shape.width + column * patch[2];
  }
  [[nodiscard]] int64_t elems() const { return patch[0] * patch[1] * patch[2]; }
};

int64_t channels_of(const std::vector<float>& values, const ClipShape& shape) {
  return std::ssize(values) / (shape.frames * shape.height * shape.width);
}

// Appends room to a column and returns it.
float* grow(std::vector<float>& column, int64_t elems) {
  const int64_t before = std::ssize(column);
  resize(column, before + elems);
  return column.data() + before;
}

void add_patches(std::vector<float>& column, const ClipSample& sample, const PatchLines& lines, int64_t patches) {
  const int64_t further = channels_of(sample.first_frame, sample.shape);
  float* to = grow(column, patches * (sample.shape.channels + further) * lines.elems());
  const float sigma = sample.sigma, rest = 1 - sigma;
  const auto width = lines.patch[2];
  for_each_patch(sample.shape, lines.patch, [&](int64_t frame, int64_t row, int64_t column_at) {
    const auto each_line = [&](int64_t channels, const auto& fill) {
      for (int64_t channel = 0; channel < channels; ++channel) {
        for (int64_t t = 0; t < lines.patch[0]; ++t) {
          for (int64_t y = 0; y < lines.patch[1]; ++y) {
            const int64_t at = lines.at(frame, row, column_at, channel, t, y);
            for (int64_t x = 0; x < width; ++x) *to++ = fill(at + x);
          }
        }
      }
    };
    each_line(sample.shape.channels,
              [&](int64_t i) { return rest * nth(sample.latents, i) + sigma * nth(sample.noise, i); });
    each_line(further, [&](int64_t i) { return nth(sample.first_frame, i); });
  });
}

// visit(i) for each element of a prediction in its order, with its place in the latents.
template <typename Visit>
void for_each_output(const PatchLines& lines, const Visit& visit) {
  for_each_patch(lines.shape, lines.patch, [&](int64_t frame, int64_t row, int64_t column) {
    for (int64_t t = 0; t < lines.patch[0]; ++t) {
      for (int64_t y = 0; y < lines.patch[1]; ++y) {
        for (int64_t x = 0; x < lines.patch[2]; ++x) {
          for (int64_t channel = 0; channel < lines.shape.channels; ++channel)
            visit(lines.at(frame, row, column, channel, t, y) + x);
        }
      }
    }
  });
}

void add_target(std::vector<float>& column, const ClipSample& sample, const PatchLines& lines) {
  float* to = grow(column, sample.shape.elems());
  for_each_output(lines, [&](int64_t i) { *to++ = nth(sample.noise, i) - nth(sample.latents, i); });
}

void append(std::vector<float>& column, const std::vector<float>& values) {
  column.insert(column.end(), values.begin(), values.end());
}

// Rows of `width` that a column got: the clip's end behind those of the others.
void end_clip(std::vector<int32_t>& offsets, const std::vector<float>& column, int64_t width) {
  if (offsets.empty()) offsets.push_back(0);
  offsets.push_back(narrow<int32_t>(std::ssize(column) / width));
}

}  // namespace

void add_to_micro_batch(MicroBatch& batch, const ClipSample& sample, const ClipDemands& demands) {
  const PatchLines lines{.shape = sample.shape, .patch = demands.patch};
  const int64_t patches = sample.shape.patches(demands.patch);
  add_patches(batch.column(kPatches), sample, lines, patches);
  add_target(batch.column(kFlowTarget), sample, lines);
  for_each_patch(sample.shape, demands.patch, [&](int64_t frame, int64_t row, int64_t column) {
    for (const int64_t at : {frame, row, column}) batch.positions.push_back(static_cast<int32_t>(at));
  });
  if (batch.seq_offsets.empty()) batch.seq_offsets.push_back(0);
  batch.seq_offsets.push_back(narrow<int32_t>(batch.seq_offsets.back() + patches));

  append(batch.column(kClipText), sample.text);
  end_clip(batch.index_column(kTextOffsets), batch.column(kClipText), demands.text_width);
  if (demands.image_width > 0) {
    append(batch.column(kClipImage), sample.image);
    end_clip(batch.index_column(kImageOffsets), batch.column(kClipImage), demands.image_width);
  }
  const int64_t size = demands.timestep_size;
  float* const embedding = grow(batch.column(kTimestepEmbedding), size);
  fill_timestep_embedding(std::span(&sample.timestep, 1), narrow<int>(size), span_of(embedding, size));
  batch.column(kSigma).push_back(sample.sigma);
  ++batch.targets;
  ++batch.rows;
}

std::vector<float> unpatchify(std::span<const float> prediction, const ClipShape& shape,
                              const std::array<int64_t, 3>& patch) {
  SPILLWAY_CHECK(std::ssize(prediction) == shape.elems(), "{} numbers for latents {}", prediction.size(),
                 to_string(shape));
  std::vector<float> latents(prediction.size());
  const float* from = prediction.data();
  for_each_output(PatchLines{.shape = shape, .patch = patch}, [&](int64_t i) { nth(latents, i) = *from++; });
  return latents;
}

}  // namespace spillway::data
