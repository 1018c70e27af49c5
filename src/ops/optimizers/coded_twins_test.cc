// Tests Lion and AdEMAMix with moments in 8 bits: a step from decoded moments is that of the f32 optimizer, and its
// results are rounded to the nearest codes.
#include <doctest/doctest.h>

#include <cmath>

#include "base/index.h"
#include "graph/verify.h"
#include "ops/optimizers/ademamix/ademamix.h"
#include "ops/optimizers/lion/lion.h"
#include "ops/optimizers/lion_8bit/lion_8bit.h"
#include "ops/testing.h"
#include "tensor/codebook.h"

using namespace spillway;
using namespace spillway::ops;
using namespace spillway::ops::testing;

namespace {

constexpr int64_t kTwinElems = 4096 + 256 + 57;
constexpr int kStep = 3;

struct Twins {
  const OptimizerDef &coded, &plain;
  std::vector<const std::array<float, 256>*> maps;  // of the moments
};

struct Outcome {
  Numbers weight;
  std::vector<Numbers> states;
};

Outcome run_update(const OptimizerDef& optimizer, const Numbers& weight, const std::vector<Numbers>& states,
                   const Numbers& gradient, double weight_decay) {
  Graph graph;
  Builder b(graph);
  std::map<ValueId, Numbers> inputs;
  const auto value = [&](const std::string& name, const ValueType& type, ValueKind kind, const Numbers& numbers) {
    const ValueId id = b.input(name, type, kind);
    inputs[id] = numbers;
    return id;
  };
  const OptimizerOptions options =
      options_of(optimizer, {{"beta1", 0.5}, {"beta2", 0.75}, {"eps", 1e-6}, {"weight_decay", weight_decay}});
  const StateSchema schema = optimizer.states(options, {{kTwinElems}});
  UpdateOperands o;
  o.weight = value("w", {DType::kF32, {kTwinElems}}, ValueKind::kTrainableWeight, weight);
  for (size_t i = 0; i < schema.values.size(); ++i) {
    const ValueType type = type_of(schema.values[i], {0, kTwinElems}, {kTwinElems});
    o.states.push_back(value(schema.values[i].name, type, ValueKind::kOptimizerState, states[i]));
  }
  o.gradient = value("g", {DType::kF32, {kTwinElems}}, ValueKind::kGradient, gradient);
  o.learning_rate = value("rate", {DType::kF32, {1}}, ValueKind::kBatch, {0.0078125});
  o.step = value("step", {DType::kI32, {1}}, ValueKind::kBatch, {kStep});
  optimizer.update(b, o, options);
  CHECK(verify(graph).empty());
  const Run run(graph, inputs, {.threads = 2});
  const auto next = [&](ValueId persistent) {
    for (size_t i = 0; i < graph.values.size(); ++i) {
      if (graph.values[i].updates == persistent) return run.numbers(static_cast<ValueId>(i));
    }
    return Numbers();
  };
  Outcome outcome{next(o.weight), {}};
  for (const ValueId state : o.states) outcome.states.push_back(next(state));
  return outcome;
}

void check_twins(const Twins& twins) {
  const Numbers weight = rounded(random_numbers(kTwinElems, 1), DType::kF32);
  Numbers gradient = rounded(random_numbers(kTwinElems, 2), DType::kF32);
  for (size_t i = 0; i < gradient.size(); i += 3) gradient[i] = static_cast<float>(gradient[i] * 1e-4);
  constexpr size_t kBlocks = (kTwinElems + 255) / 256;
  std::vector<Numbers> coded, decoded;
  for (size_t s = 0; s < twins.maps.size(); ++s) {
    Numbers codes = random_integers(kTwinElems, 10 + s, 256), absmax(kBlocks), values(kTwinElems);
    for (size_t block = 0; block < kBlocks; ++block) absmax[block] = 0.25 * static_cast<double>(block % 3);
    for (size_t i = 0; i < codes.size(); ++i)
      values[i] = nth(*twins.maps[s], codes[i]) * static_cast<float>(absmax[i / 256]);
    coded.push_back(codes);
    coded.push_back(absmax);
    decoded.push_back(values);
  }
  const Outcome got = run_update(twins.coded, weight, coded, gradient, 0);
  const Outcome want = run_update(twins.plain, weight, decoded, gradient, 0);
  CHECK(got.weight == want.weight);
  for (size_t s = 0; s < twins.maps.size(); ++s) {
    const std::array<float, 256>& map = *twins.maps[s];
    const Numbers &codes = got.states[2 * s], &absmax = got.states[2 * s + 1], &moments = want.states[s];
    int64_t wrong = 0;
    for (size_t block = 0; block < kBlocks; ++block) {
      double largest = 0;
      for (size_t i = block * 256; i < std::min<size_t>(kTwinElems, (block + 1) * 256); ++i)
        largest = std::max(largest, std::abs(moments[i]));
      wrong += absmax[block] != largest;
    }
    for (size_t i = 0; i < codes.size(); ++i) {
      const double scale = absmax[i / 256], x = scale == 0 ? 0 : moments[i] / scale;
      const auto error = [&](size_t code) { return std::abs(map[code] - x); };
      double least = error(0);
      for (size_t code = 1; code < 256; ++code) least = std::min(least, error(code));
      const auto code = static_cast<size_t>(codes[i]);
      // Below zero the code is one below zero, even if another is nearer.
      const bool keeps_sign = x >= 0 || map[code] < 0;
      const bool is_nearest =
          error(code) <= least + 1e-6 * std::abs(x) || (x < 0 && code + 1 < 256 && map[code + 1] == 0);
      wrong += !keeps_sign || !is_nearest;
    }
    CHECK(wrong == 0);
  }
}

}  // namespace

TEST_CASE(
    "lion_8bit and ademamix_8bit are their f32 twins over decoded moments, which they round to the nearest codes") {
  check_twins({kLion8bit, kLion, {&kDynamicSigned}});
  check_twins({kAdemamix8bit, kAdemamix, {&kDynamicSigned, &kDynamicSigned, &kDynamicUnsigned}});
}

TEST_CASE("ademamix_8bit decays behind the step, as the kernels do, and clears the moments of what is no number") {
  const size_t n = kTwinElems;
  const std::vector<Numbers> zeros = {Numbers(n, 127), Numbers(18, 0), Numbers(n, 127),
                                      Numbers(18, 0),  Numbers(n, 0),  Numbers(18, 0)};
  const Numbers weight = rounded(random_numbers(kTwinElems, 1), DType::kF32);
  Numbers gradient = rounded(random_numbers(kTwinElems, 2), DType::kF32);
  gradient[7] = std::numeric_limits<double>::infinity();
  const Numbers plain = run_update(kAdemamix8bit, weight, zeros, gradient, 0).weight;
  const Outcome decayed = run_update(kAdemamix8bit, weight, zeros, gradient, 0.5);
  CHECK(decayed.weight[7] == weight[7]);
  CHECK(decayed.states[0][7] == 127);
  for (const size_t i : {size_t{0}, size_t{100}, size_t{4400}})
    CHECK(decayed.weight[i] == doctest::Approx(plain[i] * (1 - 0.0078125 * 0.5)).epsilon(1e-6));
}
