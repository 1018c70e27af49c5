#include "ops/optimizers/adamw_8bit/adamw_8bit.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/index.h"
#include "graph/verify.h"
#include "ops/optimizers/adamw/adamw.h"
#include "ops/testing.h"
#include "tensor/codebook.h"

using namespace spillway;
using namespace spillway::ops;
using namespace spillway::ops::testing;

namespace {

constexpr int64_t kBlock = 256, kWeights = 4096 + 3 * kBlock + 57;
constexpr double kBeta1 = 0.9, kBeta2 = 0.99, kAdamEps = 1e-6, kDecay = 0.1;
constexpr double kRate = 0.0078125;

// A moment as codes of a map.
struct Moment {
  Numbers codes = Numbers(kWeights, 0), absmax = Numbers((kWeights + kBlock - 1) / kBlock, 0);

  [[nodiscard]] double value(const std::array<float, 256>& map, size_t i) const {
    return double{nth(map, codes[i])} * absmax[i / kBlock];
  }
};

struct State {
  Numbers p;
  Moment m, v;
};

// One step in float64; the moments as numbers.
struct Expected {
  Numbers p, m, v;
};
Expected expected_step(const State& from, const Numbers& gradient, int step) {
  Expected next{from.p, Numbers(kWeights), Numbers(kWeights)};
  const double c1 = 1 - std::pow(kBeta1, step), c2 = std::sqrt(1 - std::pow(kBeta2, step));
  for (size_t i = 0; i < kWeights; ++i) {
    const double g = gradient[i];
    if (!std::isfinite(g)) continue;
    next.m[i] = kBeta1 * from.m.value(kDynamicSigned, i) + (1 - kBeta1) * g;
    next.v[i] = kBeta2 * from.v.value(kDynamicUnsigned, i) + (1 - kBeta2) * g * g;
    next.p[i] += -kRate * c2 / c1 * next.m[i] / (std::sqrt(next.v[i]) + c2 * kAdamEps);
    next.p[i] *= 1 - kRate * kDecay;
  }
  return next;
}

// Rounds to the nearest value, by float64 distances; below zero to one below zero.
Moment rounded_moment(const Numbers& numbers, const std::array<float, 256>& map) {
  Moment moment;
  for (size_t i = 0; i < kWeights; ++i) {
    double& absmax = moment.absmax[i / kBlock];
    absmax = std::max(absmax, double{static_cast<float>(std::abs(numbers[i]))});
  }
  for (size_t i = 0; i < kWeights; ++i) {
    const double absmax = moment.absmax[i / kBlock], x = absmax == 0 ? 0 : numbers[i] / absmax;
    size_t best = 0;
    for (size_t c = 1; c < map.size(); ++c) {
      if (std::abs(map[c] - x) < std::abs(map[best] - x)) best = c;
    }
    if (x < 0 && map[best] == 0) --best;
    moment.codes[i] = static_cast<double>(best);
  }
  return moment;
}

// Runs the operation, from state to state.
State run_step(const State& from, const Numbers& gradient, int step, bool with_master, const RunOptions& how) {
  Graph graph;
  Builder b(graph);
  std::map<ValueId, Numbers> inputs;
  const auto value = [&](const char* name, DType dtype, ValueKind kind, const Numbers& numbers) {
    const ValueId id = b.input(name, {dtype, {static_cast<int64_t>(numbers.size())}}, kind);
    inputs[id] = numbers;
    return id;
  };
  UpdateOperands o;
  o.weight = value("w", with_master ? DType::kBF16 : DType::kF32, ValueKind::kTrainableWeight, from.p);
  if (with_master) o.master = value("master", DType::kF32, ValueKind::kOptimizerState, from.p);
  for (const Moment* moment : {&from.m, &from.v}) {
    o.states.push_back(value(moment == &from.m ? "m" : "v", DType::kU8, ValueKind::kOptimizerState, moment->codes));
    o.states.push_back(
        value(moment == &from.m ? "m_absmax" : "v_absmax", DType::kF32, ValueKind::kOptimizerState, moment->absmax));
  }
  o.gradient = value("g", DType::kF32, ValueKind::kGradient, gradient);
  o.learning_rate = value("rate", DType::kF32, ValueKind::kBatch, {kRate});
  o.step = value("step", DType::kI32, ValueKind::kBatch, {static_cast<double>(step)});
  kAdamw8bit.update(
      b, o,
      options_of(kAdamw8bit, {{"beta1", kBeta1}, {"beta2", kBeta2}, {"eps", kAdamEps}, {"weight_decay", kDecay}}));
  CHECK(verify(graph).empty());
  const Run run(graph, inputs, how);
  const auto next = [&](ValueId persistent) {
    for (size_t i = 0; i < graph.values.size(); ++i) {
      if (graph.values[i].updates == persistent) return run.numbers(static_cast<ValueId>(i));
    }
    return Numbers();
  };
  State to{next(with_master ? o.master : o.weight),
           {next(o.states[0]), next(o.states[1])},
           {next(o.states[2]), next(o.states[3])}};
  if (with_master) CHECK(next(o.weight) == rounded(to.p, DType::kBF16));
  return to;
}

// Returns numbers over many decades, some of them zero.
Numbers gradient_of(int step) {
  Numbers numbers = random_numbers(kWeights, static_cast<uint64_t>(step));
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] *= std::pow(10, -static_cast<double>(i % 7));
    if (i % 11 == 0 || i / kBlock == 2) numbers[i] = 0;  // a whole block, too
  }
  return rounded(numbers, DType::kF32);
}

// Checks that every code stands for a value nearest to the original, apart from the rounding of f32.
void check_nearest(const Moment& got, const Numbers& want, const std::array<float, 256>& map) {
  const Moment reference = rounded_moment(want, map);
  check_close(got.absmax, reference.absmax, DType::kF32, 1e-6);
  int64_t far = 0;
  for (size_t i = 0; i < kWeights; ++i) {
    const double absmax = reference.absmax[i / kBlock];
    const double error = std::abs(got.value(map, i) - want[i]), least = std::abs(reference.value(map, i) - want[i]);
    if (error > least + 1e-6 * absmax * std::max(1e-6, std::abs(want[i]) / std::max(absmax, 1e-30))) ++far;
    if (want[i] < 0 && got.value(map, i) >= 0 && absmax > 0) ++far;
    if (want[i] == 0 && got.value(map, i) != 0) ++far;
  }
  CHECK(far == 0);
}

}  // namespace

TEST_CASE("adamw_8bit follows the kernels of bitsandbytes in float64, step by step and over twenty") {
  for (const bool with_master : {false, true}) {
    State state{rounded(random_numbers(kWeights, 100), DType::kF32), {}, {}}, reference = state;
    for (int step = 1; step <= 20; ++step) {
      CAPTURE(step);
      const Numbers gradient = gradient_of(step);
      const Expected want = expected_step(state, gradient, step);
      const State next = run_step(state, gradient, step, with_master, {.threads = 2});
      check_close(next.p, want.p, DType::kF32, 1e-6);
      check_nearest(next.m, want.m, kDynamicSigned);
      check_nearest(next.v, want.v, kDynamicUnsigned);
      if (step % 7 == 1) {
        for (const bool in_place : {false, true}) {
          const State again = run_step(state, gradient, step, with_master, {.threads = 3, .in_place = in_place});
          CHECK((again.p == next.p && again.m.codes == next.m.codes && again.v.absmax == next.v.absmax));
        }
      }
      state = next;
      const Expected own = expected_step(reference, gradient, step);
      reference = {own.p, rounded_moment(own.m, kDynamicSigned), rounded_moment(own.v, kDynamicUnsigned)};
    }
    // A number halfway between two may be rounded either way by f32; few are.
    int64_t other_codes = 0, other_weights = 0;
    for (size_t i = 0; i < kWeights; ++i) {
      other_codes += state.m.codes[i] != reference.m.codes[i] || state.v.codes[i] != reference.v.codes[i];
      other_weights += std::abs(state.p[i] - reference.p[i]) > 1e-5;
    }
    CHECK(other_codes < kWeights / 200);
    CHECK(other_weights < kWeights / 200);
  }
}

TEST_CASE("a gradient that is no number clears its moments and leaves its weight; others go on") {
  State state{rounded(random_numbers(kWeights, 100), DType::kF32), {}, {}};
  state = run_step(state, gradient_of(1), 1, false, {});
  Numbers gradient = gradient_of(2);
  gradient[5] = std::numeric_limits<double>::quiet_NaN();
  gradient[300] = std::numeric_limits<double>::infinity();
  const Expected want = expected_step(state, gradient, 2);
  const State next = run_step(state, gradient, 2, false, {});
  check_close(next.p, want.p, DType::kF32, 1e-6);
  for (const size_t i : {size_t{5}, size_t{300}}) {
    CHECK(next.p[i] == state.p[i]);
    CHECK(next.m.value(kDynamicSigned, i) == 0);
    CHECK(next.v.value(kDynamicUnsigned, i) == 0);
  }
  check_nearest(next.m, want.m, kDynamicSigned);
}

TEST_CASE("a scale below zero, which no step leaves, gives the code of zero and nothing beyond the map") {
  State state{rounded(random_numbers(kWeights, 100), DType::kF32), {}, {}};
  state.v.codes = random_integers(kWeights, 1, 256);
  for (double& scale : state.v.absmax) scale = -0.75;
  const State next = run_step(state, Numbers(kWeights, 0), 1, false, {});
  CHECK(next.v.codes == Numbers(kWeights, 0));
}

TEST_CASE("huge and tiny gradients, and denormal ones, leave finite weights and moments") {
  for (const double scale : {1e18, 1e-18, 1e-36, 1e-43}) {
    CAPTURE(scale);
    State state{rounded(random_numbers(kWeights, 100), DType::kF32), {}, {}};
    for (int step = 1; step <= 3; ++step) {
      Numbers gradient = gradient_of(step);
      for (double& g : gradient) g *= scale;
      state = run_step(state, rounded(gradient, DType::kF32), step, false, {});
    }
    const auto is_finite = [](double x) { return std::isfinite(x); };
    CHECK(std::all_of(state.p.begin(), state.p.end(), is_finite));
    CHECK(std::all_of(state.m.absmax.begin(), state.m.absmax.end(), is_finite));
    CHECK(std::all_of(state.v.absmax.begin(), state.v.absmax.end(), is_finite));
  }
}

TEST_CASE("weights below 4,096 elements have f32 moments, those from there on 2.03 bytes an element") {
  const OptimizerOptions options = options_of(kAdamw8bit);
  const StateSchema small = kAdamw8bit.states(options, {{4095}}), large = kAdamw8bit.states(options, {{16, 256}});
  CHECK(small.values == kAdamw.states(options, {{4095}}).values);
  CHECK(small.slice_unit == 1);
  REQUIRE(large.values.size() == 4);
  CHECK(large.slice_unit == 256);
  int64_t bytes = 0;
  for (const StateSpec& spec : large.values) bytes += type_of(spec, {0, 16}, {16, 256}).bytes();
  CHECK(bytes == 2 * (4096 + 16 * 4));
  CHECK(large.values[1].name == "exp_avg_absmax");
}
