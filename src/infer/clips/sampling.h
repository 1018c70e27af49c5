// Clips out of noise: Euler steps along the flow, as diffusers' FlowMatchEulerDiscreteScheduler makes them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "data/batch.h"
#include "data/clips/clip.h"

namespace spillway::infer {

// Of Wan 2.2's two transformers the second predicts the timesteps below the boundary, with a guidance of its own.
struct SecondTransformer {
  double boundary = 0;  // from 0 to 1000
  double guidance = 1;
};

struct SamplingOptions {
  int64_t steps = 50;
  double flow_shift = 3;
  double guidance = 1;  // 1: the text alone is asked
  int64_t text_len = 512;
  std::optional<SecondTransformer> second;

  // In a micro-batch.
  [[nodiscard]] int64_t most_clips() const { return guidance == 1 && (!second || second->guidance == 1) ? 1 : 2; }
};

// What a clip is asked for: its text, and what an image-to-video model reads besides. Values as data::Clip has them.
struct ClipPrompt {
  std::vector<float> text;      // [rows, text_width]
  std::vector<float> negative;  // [rows, text_width], read where guidance is not 1; empty: zeros
  std::vector<float> image, first_frame;
};

// steps + 1 noise levels, from 1 down to 0. The table of training, which is shifted, gives the ends; between them the
// levels are evenly spaced and then shifted again, in f64, and rounded to f32.
[[nodiscard]] std::vector<float> euler_sigmas(int64_t steps, double shift);

// What a transformer, 0 or 1, predicts for a micro-batch, [patches, elements of a patch of the output]; valid until the
// next call.
using PredictFlow = std::function<std::span<const float>(const data::MicroBatch&, size_t transformer)>;

// Latents of `shape`, in normalised units, out of `noise` of that shape. `progress`, where there is one, is told of
// steps. With guidance a micro-batch holds two clips.
[[nodiscard]] std::vector<float> sample_clip(const PredictFlow& predict, const data::ClipDemands& demands,
                                             const data::ClipShape& shape, std::vector<float> noise,
                                             const ClipPrompt& prompt, const SamplingOptions& options,
                                             const std::function<void(int64_t done, int64_t of)>& progress = {});

}  // namespace spillway::infer
