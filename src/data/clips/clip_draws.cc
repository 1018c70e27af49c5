#include "data/clips/clip_draws.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <optional>

#include "base/error.h"
#include "base/random.h"

namespace spillway::data {
namespace {

// Streams of random numbers by their purpose: the upper 16 bits; below them is the sample's number.
constexpr uint64_t kTimestepStream = 0x7469, kNoiseStream = 0x6E6F, kTextStream = 0x7478;
constexpr int kSampleBits = 48;

std::array<uint32_t, 4> bits_of(uint64_t seed, uint64_t purpose, int64_t sample, uint64_t counter) {
  return philox(seed, purpose << kSampleBits | static_cast<uint64_t>(sample), counter);
}

// Convert a random word to [0, 1) and to (0, 1).
double uniform(uint32_t bits) { return bits * 0x1p-32; }
double inner_uniform(uint32_t bits) { return (bits + 0.5) * 0x1p-32; }

// Returns two standard normal numbers for two random words (Box and Muller, 1958).
std::array<double, 2> normal_pair(uint32_t a, uint32_t b) {
  const double radius = std::sqrt(-2 * std::log(inner_uniform(a))), angle = 2 * std::numbers::pi * uniform(b);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

double draw_u(const FlowOptions& options, const std::array<uint32_t, 4>& bits) {
  switch (options.weighting_scheme) {
    case WeightingScheme::kLogitNormal:
      return 1 / (1 + std::exp(-(options.logit_mean + options.logit_std * normal_pair(bits[0], bits[1])[0])));
    case WeightingScheme::kMode: {
      const double v = uniform(bits[0]), cosine = std::cos(std::numbers::pi * v / 2);
      return 1 - v - options.mode_scale * (cosine * cosine - 1 + v);
    }
    case WeightingScheme::kUniform:
      break;
  }
  return uniform(bits[0]);
}

// The scheme `mode` gives 1, and with large scales more or less than 0 to 1.
size_t index_of(double u) {
  const double index = std::floor(static_cast<double>(kFlowSteps) * u);
  return static_cast<size_t>(std::clamp(index, 0.0, static_cast<double>(kFlowSteps - 1)));
}

bool is_in_range(const FlowOptions& options, float timestep) {
  return timestep >= options.min_timestep && timestep <= options.max_timestep;
}

// A draw that falls outside of the range is one of many; a million of them in a row come once in 10^40 samples where
// kTriesAtStart have found one.
constexpr uint64_t kTriesAtStart = uint64_t{1} << 16, kTries = uint64_t{1} << 20;

// Returns nothing if none of `tries` draws is in the range.
std::optional<float> draw_timestep(const FlowOptions& options, const FlowTable& table, int64_t sample, uint64_t tries) {
  for (uint64_t counter = 0; counter < tries; ++counter) {
    const double u = draw_u(options, bits_of(options.seed, kTimestepStream, sample, counter));
    const float timestep = table.timesteps[index_of(u)];
    if (is_in_range(options, timestep)) return timestep;
  }
  return {};
}

void check_range(const FlowOptions& options) {
  const double low = options.min_timestep, high = options.max_timestep;
  if (!(low >= 0 && high <= static_cast<double>(kFlowSteps) && low <= high))
    throw input_error("min_timestep", "expected 0 <= min_timestep <= max_timestep <= {}, got {} and {}; correct them",
                      kFlowSteps, low, high);
  const FlowTable table = make_flow_table(options.flow_shift);
  const auto fits = [&](float timestep) { return is_in_range(options, timestep); };
  if (std::none_of(table.timesteps.begin(), table.timesteps.end(), fits))
    throw input_error("min_timestep",
                      "expected a timestep of the {} with flow_shift {} between {} and {}, got none; widen the range",
                      kFlowSteps, options.flow_shift, low, high);
  if (!draw_timestep(options, table, 0, kTriesAtStart))
    throw input_error("min_timestep",
                      "expected timesteps between {} and {} to be drawn, got none in {} tries; widen the range or "
                      "choose another weighting_scheme",
                      low, high, kTriesAtStart);
}

void check_latents(const FlowOptions& options, int64_t channels) {
  const auto& mean = options.latents_mean;
  const auto& deviation = options.latents_std;
  if (mean.empty() && deviation.empty()) return;
  if (std::ssize(mean) != channels)
    throw input_error("latents_mean", "expected {} numbers, one a channel, got {}; correct the VAE's config.json",
                      channels, mean.size());
  if (std::ssize(deviation) != channels)
    throw input_error("latents_std", "expected {} numbers, one a channel, got {}; correct the VAE's config.json",
                      channels, deviation.size());
  for (const float one : mean) {
    if (!std::isfinite(one))
      throw input_error("latents_mean", "expected finite numbers, got {}; correct the VAE's config.json", one);
  }
  for (const float one : deviation) {
    if (!(one > 0 && std::isfinite(one) && std::isfinite(1 / one)))
      throw input_error("latents_std", "expected numbers above 0, got {}; correct the VAE's config.json", one);
  }
}

}  // namespace

FlowTable make_flow_table(double shift) {
  FlowTable table;
  const auto factor = static_cast<float>(shift), rest = static_cast<float>(shift - 1);
  for (int64_t i = 0; i < kFlowSteps; ++i) {
    const float x = static_cast<float>(kFlowSteps - i) / static_cast<float>(kFlowSteps);
    table.sigmas.push_back(factor * x / (1 + rest * x));
    table.timesteps.push_back(table.sigmas.back() * static_cast<float>(kFlowSteps));
  }
  return table;
}

void check_flow_options(const FlowOptions& options, int64_t channels) {
  if (!(options.flow_shift > 0 && std::isfinite(options.flow_shift)))
    throw input_error("flow_shift", "expected a number above 0, got {}; the usual one is 3", options.flow_shift);
  if (!(options.logit_std > 0 && std::isfinite(options.logit_std)))
    throw input_error("logit_std", "expected a number above 0, got {}; the usual one is 1", options.logit_std);
  if (!std::isfinite(options.logit_mean))
    throw input_error("logit_mean", "expected a finite number, got {}; the usual one is 0", options.logit_mean);
  if (!std::isfinite(options.mode_scale))
    throw input_error("mode_scale", "expected a finite number, got {}; the usual one is 1.29", options.mode_scale);
  if (!(options.training_cfg_rate >= 0 && options.training_cfg_rate <= 1))
    throw input_error("training_cfg_rate", "expected a share from 0 to 1, got {}; correct it",
                      options.training_cfg_rate);
  check_range(options);
  check_latents(options, channels);
}

FlowDraw draw_flow(const FlowOptions& options, const FlowTable& table, int64_t sample) {
  const std::optional<float> timestep = draw_timestep(options, table, sample, kTries);
  SPILLWAY_CHECK(timestep, "no timestep from {} to {}", options.min_timestep, options.max_timestep);
  const bool drops_text = uniform(bits_of(options.seed, kTextStream, sample, 0)[0]) < options.training_cfg_rate;
  return {.timestep = *timestep, .drops_text = drops_text};
}

void fill_noise(uint64_t seed, int64_t sample, int64_t first, std::span<float> noise) {
  constexpr size_t kWords = 4;
  const auto block = static_cast<uint64_t>(first) / kWords;
  for (size_t i = 0; i < noise.size(); i += kWords) {
    const std::array<uint32_t, 4> bits = bits_of(seed, kNoiseStream, sample, block + i / kWords);
    const auto a = normal_pair(bits[0], bits[1]), b = normal_pair(bits[2], bits[3]);
    const std::array<double, kWords> numbers = {a[0], a[1], b[0], b[1]};
    const size_t count = std::min(kWords, noise.size() - i);
    for (size_t j = 0; j < count; ++j) noise[i + j] = static_cast<float>(numbers[j]);
  }
}

}  // namespace spillway::data
