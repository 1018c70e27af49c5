// Generates clips from noise with Euler steps along the flow, as diffusers' FlowMatchEulerDiscreteScheduler does.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "data/batch.h"
#include "data/clips/clip.h"

namespace spillway::infer {

// The second transformer of Wan 2.2, which predicts the timesteps below the boundary with its own guidance scale.
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

  // Returns the largest number of clips in a micro-batch.
  [[nodiscard]] int64_t most_clips() const { return guidance == 1 && (!second || second->guidance == 1) ? 1 : 2; }
};

// The input of a clip: its text, and the image inputs of an image-to-video model. Values are laid out as in data::Clip.
struct ClipPrompt {
  std::vector<float> text;      // [rows, text_width]
  std::vector<float> negative;  // [rows, text_width], read where guidance is not 1; empty: zeros
  std::vector<float> image, first_frame;
};

// Returns steps + 1 noise levels, from 1 down to 0. The ends come from the shifted training table; the levels between
// them are evenly spaced, shifted again in f64, and rounded to f32.
[[nodiscard]] std::vector<float> euler_sigmas(int64_t steps, double shift);

// Predicts the flow of a micro-batch with transformer 0 or 1. Returns [patches, elements of an output patch], valid
// until the next call.
using PredictFlow = std::function<std::span<const float>(const data::MicroBatch&, size_t transformer)>;

// Returns latents of `shape`, in normalised units, denoised from `noise` of that shape. Calls `progress`, if there is
// one, after each step. With guidance, a micro-batch holds two clips.
[[nodiscard]] std::vector<float> sample_clip(const PredictFlow& predict, const data::ClipDemands& demands,
                                             const data::ClipShape& shape, std::vector<float> noise,
                                             const ClipPrompt& prompt, const SamplingOptions& options,
                                             const std::function<void(int64_t done, int64_t of)>& progress = {});

}  // namespace spillway::infer
