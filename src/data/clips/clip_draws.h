// The random draws for a sample of flow matching: its timestep, its noise, and whether its text is dropped. They depend
// only on the seed and on the sample's number in the run (0, 1, 2, ... in the order of training).
//
// Timesteps are drawn as in FastVideo and diffusers for Stable Diffusion 3 (Esser et al., 2024, section 3.1).
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

// The noise levels from high to low: x_i = (1000 - i) / 1000, sigma_i = shift x_i / (1 + (shift - 1) x_i), timestep_i =
// 1000 sigma_i. Each operation is in f32, as in FlowMatchEulerDiscreteScheduler.
struct FlowTable {
  std::vector<float> sigmas, timesteps;
};
[[nodiscard]] FlowTable make_flow_table(double shift);

// Throws InputError naming the key if min_timestep is above max_timestep; if the range holds no timestep of the table,
// or only some that the scheme almost never draws; if a shift or deviation is not above 0; if a rate is outside of 0 to
// 1; or if mean and deviations have other lengths than `channels`.
void check_flow_options(const FlowOptions& options, int64_t channels);

// Returns the share of noise at a timestep. It is also used for drawn timesteps, so that a sample that was written with
// its timestep gives the same bits; it differs from the table's sigma by a rounding.
[[nodiscard]] inline float sigma_at(float timestep) { return timestep / 1000.0F; }

struct FlowDraw {
  float timestep = 0;
  bool drops_text = false;
};
// Draws u in [0, 1] by the scheme and takes the timestep of the table at index floor(1000 u), at most 999; draws again
// if that is outside of the range. REQUIRES: check_flow_options() has passed; 0 <= sample < 2^48.
[[nodiscard]] FlowDraw draw_flow(const FlowOptions& options, const FlowTable& table, int64_t sample);

// Fills `noise` with standard normal numbers in f32. Element i is a function of (seed, sample, first + i), so that
// parts may be filled in any order. REQUIRES: 0 <= sample < 2^48; first is a multiple of 4.
void fill_noise(uint64_t seed, int64_t sample, int64_t first, std::span<float> noise);

}  // namespace spillway::data
