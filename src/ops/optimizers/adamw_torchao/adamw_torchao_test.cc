#include "ops/optimizers/adamw_torchao/adamw_torchao.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "graph/verify.h"
#include "ops/optimizers/adamw/adamw.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops;
using namespace spillway::ops::testing;

namespace {

// Returns how many numbers are not the same.
int64_t count_others(const Numbers& got, const Numbers& want, double tolerance) {
  REQUIRE(got.size() == want.size());
  int64_t others = 0;
  for (size_t i = 0; i < got.size(); ++i) others += std::abs(got[i] - want[i]) > tolerance;
  return others;
}

void check_golden(const OptimizerDef& optimizer) {
  std::ifstream file(fmt::format("{}/tests/golden/optimizers/{}.json", SPILLWAY_SOURCE_DIR, optimizer.name));
  const nlohmann::json golden = nlohmann::json::parse(file);
  const nlohmann::json& numbers = golden["options"];
  const OptimizerOptions options = options_of(optimizer, {{"beta1", numbers["beta1"]},
                                                          {"beta2", numbers["beta2"]},
                                                          {"eps", numbers["eps"]},
                                                          {"weight_decay", numbers["weight_decay"]}});
  Numbers p = golden["weight"];
  for (double& number : p) number /= 1024;
  const Shape shape = {16, 256};
  const StateSchema schema = optimizer.states(options, {shape});
  std::vector<Numbers> states;
  for (const StateSpec& spec : schema.values)
    states.emplace_back(static_cast<size_t>(type_of(spec, {0, 16}, shape).shape.elems()), 0);
  double step = 0;
  for (const nlohmann::json& integers : golden["gradients"]) {
    Graph graph;
    Builder b(graph);
    std::map<ValueId, Numbers> inputs;
    const auto value = [&](std::string name, const ValueType& type, ValueKind kind, const Numbers& content) {
      const ValueId id = b.input(std::move(name), type, kind);
      inputs[id] = content;
      return id;
    };
    Numbers gradient = integers;
    for (size_t i = 0; i < gradient.size(); ++i) gradient[i] *= std::exp2(-10 - 3 * static_cast<double>(i % 7));
    UpdateOperands o;
    o.weight = value("w", {DType::kF32, shape}, ValueKind::kTrainableWeight, p);
    for (size_t i = 0; i < states.size(); ++i) {
      const StateSpec& spec = schema.values[i];
      o.states.push_back(value(spec.name, type_of(spec, {0, 16}, shape), ValueKind::kOptimizerState, states[i]));
    }
    o.gradient = value("g", {DType::kF32, shape}, ValueKind::kGradient, gradient);
    o.learning_rate = value("lr", {DType::kF32, {1}}, ValueKind::kBatch, {numbers["learning_rate"].get<double>()});
    o.step = value("step", {DType::kI32, {1}}, ValueKind::kBatch, {++step});
    optimizer.update(b, o, options);
    CHECK(verify(graph).empty());
    const Run run(graph, inputs, {.threads = 2});
    const auto next = [&](ValueId persistent) {
      for (size_t i = 0; i < graph.values.size(); ++i) {
        if (graph.values[i].updates == persistent) return run.numbers(static_cast<ValueId>(i));
      }
      return Numbers();
    };
    p = next(o.weight);
    for (size_t i = 0; i < states.size(); ++i) states[i] = next(o.states[i]);
  }
  // The library rounds some sums in another order, so that a number halfway between two values may go either way.
  CHECK(count_others(p, golden["weight_after"].get<Numbers>(), 2e-6) <= 8);
  for (size_t i = 0; i < states.size(); ++i) {
    CAPTURE(schema.values[i].name);
    const Numbers want = golden[schema.values[i].name];
    if (schema.values[i].dtype == DType::kF32) {
      check_close(states[i], want, DType::kF32, 1e-6);
    } else {
      CHECK(count_others(states[i], want, 0) <= 8);
    }
  }
}

}  // namespace

TEST_CASE("adamw_torch_8bit and adamw_torch_4bit follow torchao over three steps") {
  check_golden(kAdamwTorchao8);
  check_golden(kAdamwTorchao4);
}

TEST_CASE("torchao's moments are f32 below 4,096 elements and where these are no whole blocks") {
  for (const OptimizerDef* optimizer : {&kAdamwTorchao8, &kAdamwTorchao4}) {
    CHECK(optimizer->states(options_of(*optimizer), {{4095}}).values == kAdamw.states({}, {{4095}}).values);
    CHECK(optimizer->states(options_of(*optimizer), {{4097}}).values == kAdamw.states({}, {{4097}}).values);
    const StateSchema schema = optimizer->states(options_of(*optimizer), {{32, 128}});
    int64_t bytes = 0;
    for (const StateSpec& spec : schema.values) bytes += type_of(spec, {0, 32}, {32, 128}).bytes();
    CHECK(bytes == (optimizer == &kAdamwTorchao8 ? 2 * 4096 : 4096) + 2 * 16 * 4);
  }
}
