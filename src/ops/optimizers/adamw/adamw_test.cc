#include "ops/optimizers/adamw/adamw.h"

#include <doctest/doctest.h>

#include <cmath>

#include "base/error.h"
#include "graph/verify.h"
#include "ops/clip_factor/clip_factor.h"
#include "ops/optimizers/either_side.h"
#include "ops/optimizers/sgd/sgd.h"
#include "ops/squared_norm/squared_norm.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops;
using namespace spillway::ops::testing;

namespace {

constexpr int64_t kElems = 70'003;

// Weight, states and gradient of one parameter, and the numbers of a step.
struct Parameter {
  Graph graph;
  Builder b{graph};
  std::map<ValueId, Numbers> inputs;

  ValueId value(const char* name, DType dtype, ValueKind kind, Numbers numbers) {
    const auto elems = static_cast<int64_t>(numbers.size());
    const ValueId id = b.input(name, {dtype, {elems}}, kind);
    inputs[id] = std::move(numbers);
    return id;
  }
  [[nodiscard]] ValueId next(ValueId persistent) const {
    for (size_t i = 0; i < graph.values.size(); ++i) {
      if (graph.values[i].updates == persistent) return static_cast<ValueId>(i);
    }
    return kNone;
  }
};

Numbers positive(Numbers numbers) {
  for (double& n : numbers) n = std::abs(n);
  return numbers;
}

}  // namespace

TEST_CASE("adamw follows torch's formula in float64 and rounds the working copy") {
  for (const bool with_master : {false, true}) {
    Parameter p;
    const Numbers p0 = rounded(random_numbers(kElems, 1), DType::kF32),
                  m0 = rounded(random_numbers(kElems, 2, 0.1), DType::kF32);
    const Numbers v0 = rounded(positive(random_numbers(kElems, 3, 0.01)), DType::kF32);
    const Numbers g0 = rounded(random_numbers(kElems, 4), DType::kBF16);
    UpdateOperands o;
    o.weight = p.value("w", with_master ? DType::kBF16 : DType::kF32, ValueKind::kTrainableWeight, p0);
    if (with_master) o.master = p.value("master", DType::kF32, ValueKind::kOptimizerState, p0);
    const ValueId m = p.value("m", DType::kF32, ValueKind::kOptimizerState, m0);
    const ValueId v = p.value("v", DType::kF32, ValueKind::kOptimizerState, v0);
    o.states = {m, v};
    o.gradient = p.value("g", with_master ? DType::kBF16 : DType::kF32, ValueKind::kGradient, g0);
    o.clip = p.value("clip", DType::kF32, ValueKind::kBatch, {0.5});
    o.learning_rate = p.value("lr", DType::kF32, ValueKind::kBatch, {0.0078125});
    o.step = p.value("step", DType::kI32, ValueKind::kBatch, {7});
    kAdamw.update(p.b, o, options_of(kAdamw, {{"beta2", 0.99}, {"eps", 1e-6}, {"weight_decay", 0.1}}));
    CHECK(verify(p.graph).empty());

    Numbers want_p(p0.size()), want_m(p0.size()), want_v(p0.size());
    for (size_t i = 0; i < p0.size(); ++i) {
      const double g = g0[i] * 0.5;
      want_m[i] = m0[i] * 0.9 + g * 0.1;
      want_v[i] = v0[i] * 0.99 + g * g * 0.01;
      const double denominator = std::sqrt(want_v[i]) / std::sqrt(1 - std::pow(0.99, 7)) + 1e-6;
      want_p[i] = p0[i] * (1 - 0.0078125 * 0.1) - 0.0078125 / (1 - std::pow(0.9, 7)) * want_m[i] / denominator;
    }
    const Run run(p.graph, p.inputs, {.threads = 2});
    check_close(run.numbers(p.next(with_master ? o.master : o.weight)), want_p, DType::kF32, 1e-6);
    check_close(run.numbers(p.next(m)), want_m, DType::kF32, 1e-6);
    check_close(run.numbers(p.next(v)), want_v, DType::kF32, 1e-6);
    if (with_master) CHECK(run.numbers(p.next(o.weight)) == rounded(run.numbers(p.next(o.master)), DType::kBF16));
    CHECK((run == Run(p.graph, p.inputs, {.threads = 3})));
    const Run in_place(p.graph, p.inputs, {.threads = 1, .in_place = true});
    CHECK(in_place.numbers(p.next(o.weight)) == run.numbers(p.next(o.weight)));
    CHECK(in_place.numbers(p.next(v)) == run.numbers(p.next(v)));
  }
}

TEST_CASE("powers of the moments' decay are those of the library, but for rounding") {
  CHECK(power(0.9, 0) == 1);
  CHECK(power(0, 5) == 0);
  for (const double base : {0.5, 0.9, 0.999, 0.999999}) {
    for (const int32_t exponent : {1, 2, 3, 10, 1'000, 123'457, 2'147'483'647}) {
      CHECK(std::abs(power(base, exponent) - std::pow(base, exponent)) <= 1e-12);
    }
  }
}

TEST_CASE("sgd follows torch's formula, with and without momentum and a master") {
  for (const bool with_momentum : {false, true}) {
    for (const bool with_master : {false, true}) {
      Parameter p;
      const Numbers p0 = rounded(random_numbers(kElems, 1), DType::kF32),
                    b0 = rounded(random_numbers(kElems, 2), DType::kF32);
      const Numbers g0 = rounded(random_numbers(kElems, 4), DType::kF32);
      UpdateOperands o;
      o.weight = p.value("w", with_master ? DType::kBF16 : DType::kF32, ValueKind::kTrainableWeight, p0);
      if (with_master) o.master = p.value("master", DType::kF32, ValueKind::kOptimizerState, p0);
      if (with_momentum) o.states = {p.value("momentum", DType::kF32, ValueKind::kOptimizerState, b0)};
      o.gradient = p.value("g", DType::kF32, ValueKind::kGradient, g0);
      o.learning_rate = p.value("lr", DType::kF32, ValueKind::kBatch, {0.125});
      o.step = p.value("step", DType::kI32, ValueKind::kBatch, {7});
      kSgd.update(p.b, o, options_of(kSgd, {{"momentum", with_momentum ? 0.9 : 0}, {"weight_decay", 0.01}}));
      CHECK(verify(p.graph).empty());
      Numbers want_p(p0.size()), want_b(p0.size());
      for (size_t i = 0; i < p0.size(); ++i) {
        want_b[i] = (with_momentum ? 0.9 * b0[i] : 0) + g0[i] + 0.01 * p0[i];
        want_p[i] = p0[i] - 0.125 * want_b[i];
      }
      for (const bool in_place : {false, true}) {
        const Run run(p.graph, p.inputs, {.threads = 2, .in_place = in_place});
        check_close(run.numbers(p.next(with_master ? o.master : o.weight)), want_p, DType::kF32, 1e-6);
        if (with_momentum) check_close(run.numbers(p.next(o.states[0])), want_b, DType::kF32, 1e-6);
        if (with_master) CHECK(run.numbers(p.next(o.weight)) == rounded(run.numbers(p.next(o.master)), DType::kBF16));
      }
    }
  }
}

TEST_CASE("the clip factor is torch's, from the norm over all gradients") {
  for (const double max_norm : {0.0, 1.0, 1e6}) {
    Parameter p;
    const Numbers g0 = rounded(random_numbers(kElems, 1), DType::kF32),
                  g1 = rounded(random_numbers(999, 2), DType::kBF16);
    const ValueId a = p.value("a", DType::kF32, ValueKind::kGradient, g0),
                  b = p.value("b", DType::kBF16, ValueKind::kGradient, g1);
    const std::vector<ValueId> squares = {squared_norm(p.b, a), squared_norm(p.b, b)};
    const ClipFactor clip = clip_factor(p.b, squares, max_norm);
    double sum = 0;
    for (const double g : g0) sum += g * g;
    for (const double g : g1) sum += g * g;
    const Run run(p.graph, p.inputs, {.threads = 2});
    check_close(run.numbers(clip.norm), {std::sqrt(sum)}, DType::kF32, 1e-6);
    check_close(run.numbers(clip.factor), {max_norm > 0 ? std::min(1.0, max_norm / (std::sqrt(sum) + 1e-6)) : 1.0},
                DType::kF32, 1e-6);
    CHECK((run == Run(p.graph, p.inputs, {.threads = 3})));
  }
}

TEST_CASE("the clip factor takes any number of norms, in their order") {
  constexpr int64_t kNorms = 600;
  Parameter p;
  std::vector<ValueId> squares;
  double sum = 0;
  for (int64_t i = 0; i < kNorms; ++i) {
    const double square = rounded(random_numbers(1, static_cast<uint64_t>(i)), DType::kF32)[0] + 1;
    squares.push_back(p.value(fmt::format("n{}", i).c_str(), DType::kF32, ValueKind::kGradient, {square}));
    sum += rounded({square}, DType::kF32)[0];
  }
  const ClipFactor clip = clip_factor(p.b, squares, 1);
  CHECK(Run(p.graph, p.inputs).numbers(clip.norm) == rounded({std::sqrt(sum)}, DType::kF32));
}

TEST_CASE("the optimizers refuse states that do not fit their weight") {
  Parameter p;
  const ValueId w = p.value("w", DType::kF32, ValueKind::kTrainableWeight, {1, 2});
  const ValueId half = p.value("half", DType::kBF16, ValueKind::kTrainableWeight, {1, 2});
  const ValueId state = p.value("state", DType::kF32, ValueKind::kOptimizerState, {0, 0});
  const ValueId longer = p.value("longer", DType::kF32, ValueKind::kOptimizerState, {0, 0, 0});
  const ValueId rate = p.value("rate", DType::kF32, ValueKind::kBatch, {1});
  const ValueId step = p.value("step", DType::kI32, ValueKind::kBatch, {1});
  UpdateOperands o{.weight = w, .states = {longer, state}, .gradient = state, .learning_rate = rate, .step = step};
  CHECK_THROWS_WITH(kAdamw.update(p.b, o, {}),
                    "[adamw] expected exp_avg as f32[2], got f32[3]; cast it or check the model's sizes");
  o.states = {state, state};
  o.step = rate;
  CHECK_THROWS_WITH(kAdamw.update(p.b, o, {}),
                    "[adamw] expected step as i32[1], got f32[1]; cast it or check the model's sizes");
  o.step = step;
  o.weight = half;
  CHECK_THROWS_WITH(kAdamw.update(p.b, o, {}),
                    "[adamw] expected a weight without a master as f32[2], got bf16[2]; cast it or "
                    "check the model's sizes");
  o.weight = w;
  o.master = state;
  CHECK_THROWS_WITH(kAdamw.update(p.b, o, {}),
                    "[adamw] expected a weight with a master as bf16[2], got f32[2]; cast it or "
                    "check the model's sizes");
  const UpdateOperands s{.weight = w, .gradient = state, .learning_rate = rate, .step = step};
  CHECK_THROWS_WITH(kSgd.update(p.b, s, options_of(kSgd, {{"momentum", 0.5}})),
                    "[sgd] expected 1 states, got 0; give those of its OptimizerDef");
  const UpdateOperands other{.weight = w, .gradient = longer, .learning_rate = rate, .step = step};
  CHECK_THROWS_WITH(kSgd.update(p.b, other, options_of(kSgd)),
                    "[sgd] expected gradient of shape [2], got f32[3]; check the model's sizes");
}

TEST_CASE("norms and clipping refuse integers and what is not a single number") {
  Parameter p;
  const ValueId n = p.value("n", DType::kI32, ValueKind::kBatch, {1, 2});
  const ValueId x = p.value("x", DType::kF32, ValueKind::kBatch, {1, 2});
  CHECK_THROWS_WITH((void)squared_norm(p.b, n), "[squared_norm] expected x in f32 or bf16, got i32[2]; cast it");
  CHECK_THROWS_AS((void)clip_factor(p.b, std::vector<ValueId>{x}, 1), InputError);
}
