#include "ops/optimizers/bf16_update.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "graph/verify.h"
#include "ops/optimizers/adamw/adamw.h"
#include "ops/optimizers/lion/lion.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops;
using namespace spillway::ops::testing;

namespace {

constexpr const char* kGolden = SPILLWAY_SOURCE_DIR "/tests/golden/optimizers/adamw_bf16.json";

struct Trained {
  Numbers weight;
  std::vector<Numbers> states;
};

struct UpdateOfBf16 {
  const OptimizerDef* optimizer;
  OptimizerOptions options;
  Shape shape;
  double rate = 0;
  std::vector<RowSlice> slices;
  std::optional<int64_t> seed;

  // Also checks that CPU and GPU give the same bits.
  [[nodiscard]] Trained step(const Trained& from, const Numbers& gradient, int32_t number) const {
    Graph graph;
    Builder b(graph);
    std::map<ValueId, Numbers> inputs;
    const auto value = [&](const std::string& name, const ValueType& type, ValueKind kind, Numbers content) {
      const ValueId id = b.input(name, type, kind);
      inputs[id] = std::move(content);
      return id;
    };
    const ValueId weight = value("w", {DType::kBF16, shape}, ValueKind::kTrainableWeight, from.weight);
    const ValueId of_gradient = value("g", {DType::kBF16, shape}, ValueKind::kGradient, gradient);
    const ValueId rate_of_step = value("rate", {DType::kF32, {1}}, ValueKind::kBatch, {rate});
    const ValueId of_step = value("step", {DType::kI32, {1}}, ValueKind::kBatch, {static_cast<double>(number)});
    ValueId step_state = kNone;
    if (const StepState* kept = optimizer->step_state) {
      const ValueId last = value("kept", {DType::kF32, {kept->elems}}, ValueKind::kOptimizerState,
                                 Numbers(static_cast<size_t>(kept->elems)));
      step_state = kept->next(b, last, rate_of_step, of_step, options);
    }
    std::optional<StochasticRounding> rounding;
    if (seed) rounding = {.seed = *seed, .stream = 7, .step = of_step};
    const StateSchema schema = bf16_states(optimizer->states(options, trained_tensor(b, weight)));
    std::vector<std::vector<ValueId>> states;
    ValueId next = weight;
    for (const RowSlice& rows : slices) {
      std::vector<ValueId>& of_slice = states.emplace_back();
      for (size_t i = 0; i < schema.values.size(); ++i) {
        const ValueType type = type_of(schema.values[i], rows, shape);
        const auto begin = from.states[i].begin() + elements_of(rows, shape).begin;
        of_slice.push_back(value(fmt::format("{} {}", schema.values[i].name, rows.first), type,
                                 ValueKind::kOptimizerState, Numbers(begin, begin + type.shape.elems())));
      }
      next = update_bf16(b, *optimizer,
                         {.weight = next,
                          .states = of_slice,
                          .step_state = step_state,
                          .gradient = of_gradient,
                          .learning_rate = rate_of_step,
                          .step = of_step,
                          .rows = rows},
                         options, rounding);
    }
    CHECK(verify(graph).empty());
    check_bits_of_cpu(graph, inputs, {.threads = 2});
    const Run run(graph, inputs);
    Trained to{run.numbers(next), std::vector<Numbers>(schema.values.size())};
    for (const std::vector<ValueId>& of_slice : states) {
      for (size_t i = 0; i < of_slice.size(); ++i) {
        const auto id = std::find_if(graph.values.begin(), graph.values.end(),
                                     [&](const Value& v) { return v.updates == of_slice[i]; });
        REQUIRE(id != graph.values.end());
        const Numbers part = run.numbers(static_cast<ValueId>(id - graph.values.begin()));
        to.states[i].insert(to.states[i].end(), part.begin(), part.end());
      }
    }
    return to;
  }
};

// Checks that numbers are equal, or, if f32 was computed in another order, neighbours in bf16, or the rest of weights
// that a step has nearly taken away. Returns how many are not equal.
size_t count_unequal(const Numbers& got, const Numbers& want) {
  size_t unequal = 0;
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    unequal += got[i] != want[i];
    CHECK(std::abs(got[i] - want[i]) <= 0x1p-7 * std::abs(want[i]) + 1e-8);
  }
  return unequal;
}

}  // namespace

TEST_CASE("AdamW of bf16 weights without masters is torch's, step after step") {
  std::ifstream stream(kGolden);
  const nlohmann::json file = nlohmann::json::parse(stream);
  UpdateOfBf16 update{.optimizer = &kAdamw, .options = options_of(kAdamw), .shape = {200}, .slices = {{0, 200}}};
  for (const auto& [name, value] : file["options"].items()) CHECK(update.options.set(name, value.get<double>()));
  update.rate = file["learning_rate"];
  size_t unequal = 0;
  const size_t steps = file["gradients"].size();
  for (size_t step = 0; step < steps; ++step) {
    const auto state = [&](const char* name, size_t at) { return file[name][at].get<Numbers>(); };
    const Trained from{state("weights", step), {state("exp_avg", step), state("exp_avg_sq", step)}};
    const Trained to = update.step(from, state("gradients", step), static_cast<int32_t>(step + 1));
    unequal += count_unequal(to.weight, state("weights", step + 1));
    unequal += count_unequal(to.states[0], state("exp_avg", step + 1));
    unequal += count_unequal(to.states[1], state("exp_avg_sq", step + 1));
  }
  CHECK(unequal <= steps * 600 / 200);
}

TEST_CASE("every optimizer updates bf16 weights, and slices and either rounding change nothing else") {
  for (const OptimizerDef* optimizer : all_optimizers()) {
    CAPTURE(optimizer->name);
    const Shape shape{6, 256};
    const OptimizerOptions options = options_of(*optimizer, {{"min_8bit_size", 256}, {"momentum", 0.9}});
    UpdateOfBf16 update{.optimizer = optimizer, .options = options, .shape = shape, .rate = 0x1p-6, .slices = {{0, 6}}};
    const StateSchema schema = bf16_states(optimizer->states(options, {shape}));
    Trained from{rounded(random_numbers(6 * 256, 1), DType::kBF16), {}};
    for (const StateSpec& spec : schema.values)
      from.states.emplace_back(static_cast<size_t>(type_of(spec, {0, 6}, shape).shape.elems()));
    const Numbers gradient = rounded(random_numbers(6 * 256, 2), DType::kBF16);
    const Trained whole = update.step(from, gradient, 1);
    CHECK(whole.weight != from.weight);
    update.seed = 3;
    const Trained stochastic = update.step(from, gradient, 1);
    CHECK(stochastic.weight != whole.weight);
    CHECK(stochastic.states == whole.states);
    const bool has_elements = std::all_of(schema.values.begin(), schema.values.end(), [](const StateSpec& spec) {
      return spec.extent == StateExtent::kElement && spec.dtype == DType::kBF16;
    });
    if (schema.slice_unit != 1 || !has_elements) continue;
    update.slices = {{0, 1}, {1, 3}, {4, 2}};
    CHECK(update.step(from, gradient, 1).weight == stochastic.weight);
  }
}

TEST_CASE("small steps are lost to the nearest, and kept in the mean by stochastic rounding") {
  const Shape shape{64, 256};
  UpdateOfBf16 update{.optimizer = &kLion, .options = options_of(kLion), .shape = shape, .slices = {{0, 64}}};
  update.rate = 1e-4;  // of weights of 1, whose neighbours below are 0.0039 away
  const Numbers ones(64 * 256, 1), none(64 * 256, 0);
  CHECK(update.step({ones, {none}}, ones, 1).weight == ones);
  update.seed = 5;
  const Numbers after = update.step({ones, {none}}, ones, 1).weight;
  double moved = 0;
  for (const double weight : after) moved += 1 - weight;
  CHECK(moved / static_cast<double>(after.size()) == doctest::Approx(1e-4).epsilon(0.2));
}
