#include "ops/optimizers/lion/lion.h"

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "graph/verify.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops;
using namespace spillway::ops::testing;

TEST_CASE("lion follows lion-pytorch over five steps, and does not move where there never was a gradient") {
  std::ifstream file(SPILLWAY_SOURCE_DIR "/tests/golden/optimizers/lion.json");
  const nlohmann::json golden = nlohmann::json::parse(file);
  const nlohmann::json& numbers = golden["options"];
  for (const bool with_master : {false, true}) {
    Numbers p = golden["weight"], m(p.size(), 0);
    const auto elems = static_cast<int64_t>(p.size());
    for (const nlohmann::json& gradient : golden["gradients"]) {
      Graph graph;
      Builder b(graph);
      std::map<ValueId, Numbers> inputs;
      const auto value = [&](const char* name, DType dtype, ValueKind kind, const Numbers& content) {
        const ValueId id = b.input(name, {dtype, {static_cast<int64_t>(content.size())}}, kind);
        inputs[id] = content;
        return id;
      };
      UpdateOperands o;
      o.weight = value("w", with_master ? DType::kBF16 : DType::kF32, ValueKind::kTrainableWeight, p);
      if (with_master) o.master = value("master", DType::kF32, ValueKind::kOptimizerState, p);
      o.states = {value("m", DType::kF32, ValueKind::kOptimizerState, m)};
      o.gradient = value("g", DType::kF32, ValueKind::kGradient, gradient.get<Numbers>());
      o.learning_rate = value("lr", DType::kF32, ValueKind::kBatch, {numbers["learning_rate"].get<double>()});
      kLion.update(b, o,
                   {.beta1 = numbers["beta1"], .beta2 = numbers["beta2"], .weight_decay = numbers["weight_decay"]});
      CHECK(verify(graph).empty());
      const Run run(graph, inputs, {.threads = 2});
      const auto next = [&](ValueId persistent) {
        for (size_t i = 0; i < graph.values.size(); ++i) {
          if (graph.values[i].updates == persistent) return run.numbers(static_cast<ValueId>(i));
        }
        return Numbers();
      };
      p = next(with_master ? o.master : o.weight);
      m = next(o.states[0]);
      if (with_master) CHECK(next(o.weight) == rounded(p, DType::kBF16));
    }
    REQUIRE(static_cast<int64_t>(p.size()) == elems);
    check_close(p, golden["weight_after"].get<Numbers>(), DType::kF32, 1e-6);
    check_close(m, golden["states_after"]["exp_avg"].get<Numbers>(), DType::kF32, 1e-6);
    CHECK(m[0] == 0);
  }
}
