// What is drawn for a sample of flow matching: timestep, noise, and whether its text is dropped. All are functions of
// the seed and of the sample's number in the run (0, 1, 2, ... in the order of training) alone.
//
// Timesteps as FastVideo and diffusers draw them for Stable Diffusion 3 (Esser et al., 2024, section 3.1).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace spillway::data {

enum class WeightingScheme { kUniform, kLogitNormal, kMode };

// Members carry the names of the config's keys.
struct FlowOptions {
  WeightingScheme weighting_scheme = WeightingScheme::kUniform;
  double logit_mean = 0, logit_std = 1, mode_scale = 1.29;
  double flow_shift = 3;
  double min_timestep = 0, max_timestep = 1000;  // both are in the range
  double training_cfg_rate = 0;                  // the share of texts that become zeros
  int64_t text_len = 512;
  int64_t num_latent_t = 0;  // frames that ClipRows is to keep; 0: all
  uint64_t seed = 42;
  std::vector<float> latents_mean, latents_std;  // a channel each; empty: latents are taken as they are
};

constexpr int64_t kFlowSteps = 1000;

// From high noise to low: x_i = (1000 - i) / 1000, sigma_i = shift x_i / (1 + (shift - 1) x_i), timestep_i = 1000
// sigma_i, each operation in f32, as FlowMatchEulerDiscreteScheduler computes them.
struct FlowTable {
  std::vector<float> sigmas, timesteps;
};
[[nodiscard]] FlowTable make_flow_table(double shift);

// Throws InputError naming the key: min_timestep above max_timestep, or a range that holds no timestep of the table or
// only some that the scheme as good as never draws; a shift or deviations not above 0; rates outside 0 to 1; mean and
// deviations of other lengths than `channels`.
void check_flow_options(const FlowOptions& options, int64_t channels);

// The noise's share at a timestep. Of drawn timesteps, too, so that a sample that was written with its timestep gives
// the same bits: within a rounding of the table's sigma.
[[nodiscard]] inline float sigma_at(float timestep) { return timestep / 1000.0F; }

struct FlowDraw {
  float timestep = 0;
  bool drops_text = false;
};
// u in [0, 1] by the scheme, index = floor(1000 u), at most 999, and that timestep of the table; outside of the range
// it is drawn again. REQUIRES: check_flow_options() has passed; 0 <= sample < 2^48.
[[nodiscard]] FlowDraw draw_flow(const FlowOptions& options, const FlowTable& table, int64_t sample);

// Standard normal numbers in f32. Element i is a function of (seed, sample, first + i), so that parts may be filled in
// any order. REQUIRES: 0 <= sample < 2^48; first is a multiple of 4.
void fill_noise(uint64_t seed, int64_t sample, int64_t first, std::span<float> noise);

}  // namespace spillway::data
