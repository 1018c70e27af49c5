#include "data/clips/clip_draws.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <numbers>

#include "base/error.h"

namespace spillway::data {
namespace {

using Document = nlohmann::json;

constexpr int64_t kSamples = 20000;

// The largest distance between the shares of draws at or below a value and those that a distribution says, with values
// that come in steps (a draw's own step belongs to it).
double distance(std::vector<double> draws, const std::function<double(double)>& share_up_to) {
  std::sort(draws.begin(), draws.end());
  double largest = 0;
  const auto n = static_cast<double>(draws.size());
  for (size_t i = 0; i < draws.size(); ++i) {
    if (i + 1 < draws.size() && draws[i + 1] == draws[i]) continue;
    largest = std::max(largest, std::abs(static_cast<double>(i + 1) / n - share_up_to(draws[i])));
  }
  return largest;
}

// The critical distance of the Kolmogorov-Smirnov test: chance exceeds it once in 10,000 times.
double critical(size_t draws) { return 2.23 / std::sqrt(static_cast<double>(draws)); }

double normal_share(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }

// Shares of u at or below a value, of the schemes as they are written.
double logit_normal_share(double u, double mean, double deviation) {
  return u <= 0 ? 0 : u >= 1 ? 1 : normal_share((std::log(u / (1 - u)) - mean) / deviation);
}
double mode_u(double v, double scale) {
  const double cosine = std::cos(std::numbers::pi * v / 2);
  return 1 - v - scale * (cosine * cosine - 1 + v);
}
// u falls as v grows: those at or below u have v at or above the one that gives it, by bisection.
double mode_share(double u, double scale) {
  double low = 0, high = 1;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (mode_u(middle, scale) > u ? low : high) = middle;
  }
  return 1 - low;
}

// The share of timesteps at or below one: those of indices from its own on.
double share_of_timestep(double timestep, const std::function<double(double)>& u_share) {
  // With a shift of 1, timestep i is 1000 - i.
  return 1 - u_share((1000 - timestep) / 1000);
}

std::vector<double> timesteps_of(const FlowOptions& options, int64_t samples = kSamples) {
  check_flow_options(options, 4);
  const FlowTable table = make_flow_table(options.flow_shift);
  std::vector<double> timesteps;
  for (int64_t i = 0; i < samples; ++i) timesteps.push_back(draw_flow(options, table, i).timestep);
  return timesteps;
}

double distance_of(const FlowOptions& options, const std::function<double(double)>& u_share) {
  return distance(timesteps_of(options), [&](double timestep) { return share_of_timestep(timestep, u_share); });
}

std::string error_of(const FlowOptions& options, int64_t channels = 4) {
  try {
    check_flow_options(options, channels);
  } catch (const InputError& error) {
    return error.what();
  }
  return "none";
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const double mean_a = mean_of(a), mean_b = mean_of(b);
  double product = 0, square_a = 0, square_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    product += (a[i] - mean_a) * (b[i] - mean_b);
    square_a += (a[i] - mean_a) * (a[i] - mean_a);
    square_b += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return product / std::sqrt(square_a * square_b);
}

std::vector<double> noise_of(uint64_t seed, int64_t sample, size_t count) {
  std::vector<float> noise(count);
  fill_noise(seed, sample, 0, noise);
  return {noise.begin(), noise.end()};
}

}  // namespace

TEST_CASE("sigmas and timesteps are those of numpy's float32, and nearly those of float64") {
  std::ifstream in(SPILLWAY_SOURCE_DIR "/tests/golden/clips/tables.json");
  for (const Document& want : Document::parse(in)) {
    const FlowTable table = make_flow_table(want["shift"]);
    REQUIRE(table.sigmas.size() == 1000);
    for (size_t i = 0; i < want["sigmas"].size(); ++i) {
      CHECK(table.sigmas[i * 37] == want["sigmas"][i].get<float>());
      CHECK(table.timesteps[i * 37] == want["timesteps"][i].get<float>());
      CHECK(table.sigmas[i * 37] == doctest::Approx(want["exact"][i].get<double>()).epsilon(3e-7));
      CHECK(sigma_at(table.timesteps[i * 37]) == doctest::Approx(table.sigmas[i * 37]).epsilon(2e-7));
    }
  }
}

TEST_CASE("timesteps are distributed as the schemes' formulas say") {
  FlowOptions options{.flow_shift = 1};
  CHECK(distance_of(options, [](double u) { return u; }) < critical(kSamples));
  options.weighting_scheme = WeightingScheme::kLogitNormal;
  CHECK(distance_of(options, [](double u) { return logit_normal_share(u, 0, 1); }) < critical(kSamples));
  options.logit_mean = -0.7;
  options.logit_std = 1.6;
  CHECK(distance_of(options, [](double u) { return logit_normal_share(u, -0.7, 1.6); }) < critical(kSamples));
  options.weighting_scheme = WeightingScheme::kMode;
  CHECK(distance_of(options, [](double u) { return mode_share(u, 1.29); }) < critical(kSamples));
  options.mode_scale = 0.5;
  CHECK(distance_of(options, [](double u) { return mode_share(u, 0.5); }) < critical(kSamples));
}

TEST_CASE("a shift moves timesteps, not how often each entry of the table comes") {
  FlowOptions options{.flow_shift = 3};
  const auto unshift = [](double sigma) { return sigma / (3 - 2 * sigma); };
  CHECK(distance(timesteps_of(options), [&](double timestep) {
          // Rounded, as the table's values are.
          const double x = std::round(unshift(timestep / 1000) * 1000) / 1000;
          return x;
        }) < critical(kSamples));
}

TEST_CASE("only timesteps of the range are drawn, in the scheme's proportions") {
  FlowOptions options{
      .weighting_scheme = WeightingScheme::kLogitNormal, .flow_shift = 1, .min_timestep = 300, .max_timestep = 400};
  const std::vector<double> timesteps = timesteps_of(options);
  CHECK(*std::min_element(timesteps.begin(), timesteps.end()) == 300);
  CHECK(*std::max_element(timesteps.begin(), timesteps.end()) == 400);
  const auto share = [](double timestep) {
    return share_of_timestep(timestep, [](double u) { return logit_normal_share(u, 0, 1); });
  };
  CHECK(distance(timesteps, [&](double t) { return (share(t) - share(299)) / (share(400) - share(299)); }) <
        critical(kSamples));
  // Timesteps that are in the range without the limits stay as they were.
  const std::vector<double> all = timesteps_of({.weighting_scheme = WeightingScheme::kLogitNormal, .flow_shift = 1});
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i] >= 300 && all[i] <= 400) CHECK(timesteps[i] == all[i]);
  }
}

TEST_CASE("the index behind the table is its last") {
  // v = 0 gives u = 1 in the scheme `mode`, and a negative scale more than that.
  FlowOptions options{.weighting_scheme = WeightingScheme::kMode, .mode_scale = -3, .flow_shift = 1};
  for (const double timestep : timesteps_of(options, 2000)) CHECK((timestep >= 1 && timestep <= 1000));
}

TEST_CASE("noise is standard normal, and of one sample independent of that of the others") {
  constexpr size_t kNumbers = 200000;
  const std::vector<double> noise = noise_of(7, 0, kNumbers);
  CHECK(distance(noise, normal_share) < critical(kNumbers));
  double square = 0;
  for (const double value : noise) square += value * value;
  CHECK(square / kNumbers == doctest::Approx(1).epsilon(0.02));
  const double bound = 4 / std::sqrt(static_cast<double>(kNumbers));
  CHECK(std::abs(mean_of(noise)) < bound);
  CHECK(std::abs(correlation(noise, noise_of(7, 1, kNumbers))) < bound);
  CHECK(std::abs(correlation(noise, noise_of(8, 0, kNumbers))) < bound);
  const std::vector<double> next(noise.begin() + 1, noise.end()), here(noise.begin(), noise.end() - 1);
  CHECK(std::abs(correlation(here, next)) < bound);
}

TEST_CASE("parts of noise are those of the whole") {
  std::vector<float> whole(103), part(50);
  fill_noise(3, 9, 0, whole);
  fill_noise(3, 9, 52, part);
  CHECK(std::equal(part.begin(), part.end(), whole.begin() + 52));
}

TEST_CASE("timesteps of successive samples, and whether texts are dropped, are independent") {
  FlowOptions options{.flow_shift = 1, .training_cfg_rate = 0.3};
  const FlowTable table = make_flow_table(1);
  std::vector<double> timesteps, dropped;
  for (int64_t i = 0; i <= kSamples; ++i) {
    const FlowDraw draw = draw_flow(options, table, i);
    timesteps.push_back(draw.timestep);
    dropped.push_back(draw.drops_text ? 1 : 0);
  }
  const double bound = 4 / std::sqrt(static_cast<double>(kSamples));
  const auto behind = [](std::vector<double> values) {
    values.erase(values.begin());
    return values;
  };
  const auto before = [](std::vector<double> values) {
    values.pop_back();
    return values;
  };
  CHECK(std::abs(correlation(before(timesteps), behind(timesteps))) < bound);
  CHECK(std::abs(correlation(before(dropped), behind(dropped))) < bound);
  CHECK(std::abs(correlation(timesteps, dropped)) < bound);
  CHECK(mean_of(dropped) == doctest::Approx(0.3).epsilon(0.05));
  options.training_cfg_rate = 0;
  CHECK(!draw_flow(options, table, 5).drops_text);
  options.training_cfg_rate = 1;
  CHECK(draw_flow(options, table, 5).drops_text);
}

TEST_CASE("options of flow matching that cannot be are told by their key") {
  CHECK(error_of({}) == "none");
  CHECK(error_of({.flow_shift = 0}).starts_with("[flow_shift] expected a number above 0, got 0"));
  CHECK(error_of({.logit_std = 0}).starts_with("[logit_std]"));
  CHECK(error_of({.min_timestep = 500, .max_timestep = 400}).starts_with("[min_timestep] expected 0 <= min_timestep"));
  CHECK(error_of({.flow_shift = 1, .min_timestep = 500.2, .max_timestep = 500.8})
            .starts_with("[min_timestep] expected a timestep of the 1000"));
  CHECK(error_of({.weighting_scheme = WeightingScheme::kLogitNormal,
                  .logit_mean = 20,
                  .logit_std = 0.1,
                  .flow_shift = 1,
                  .min_timestep = 900})
            .starts_with("[min_timestep] expected timesteps between 900 and 1000 to be drawn, got none"));
  CHECK(error_of({.training_cfg_rate = 1.5}).starts_with("[training_cfg_rate]"));
  FlowOptions latents{.latents_mean = {0, 0, 0, 0}, .latents_std = {1, 1, 1}};
  CHECK(error_of(latents).starts_with("[latents_std] expected 4 numbers, one a channel, got 3"));
  latents.latents_std = {1, 1, 0, 1};
  CHECK(error_of(latents).starts_with("[latents_std] expected numbers above 0, got 0"));
  latents.latents_std = {1, 1, 2, 1};
  CHECK(error_of(latents) == "none");
  CHECK(error_of(latents, 16).starts_with("[latents_mean] expected 16 numbers"));
}

}  // namespace spillway::data
