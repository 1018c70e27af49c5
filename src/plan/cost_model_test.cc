#include "plan/cost_model.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "graph/builder.h"
#include "ops/dropout/dropout.h"
#include "ops/matmul/matmul.h"
#include "plan/signature.h"

using namespace spillway;

namespace {

// Two products of equal sizes, and a dropout after each.
Graph small_graph() {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kBF16, {64, 32}, true}, ValueKind::kBatch);
  const ValueId seed = b.input("seed", {DType::kI64, {1}}, ValueKind::kBatch);
  for (int i = 0; i < 2; ++i) {
    const ValueId w = b.input(fmt::format("w{}", i), {DType::kBF16, {16, 32}}, ValueKind::kFrozenWeight);
    b.result(ops::dropout(b, ops::matmul(b, x, w, {.transpose_b = true}), seed, 0.1, i));
  }
  graph.tokens = 64;
  return graph;
}

}  // namespace

TEST_CASE("a signature says what an operation's time depends on, and nothing else") {
  const Graph graph = small_graph();
  CHECK(signature_of(graph, 1) == "dropout(bf16[64t, 16], i64[1]) -> bf16[64t, 16] p=0.1");
  CHECK(signature_of(graph, 0).starts_with("matmul(bf16[64t, 32], bf16[16, 32]"));
  CHECK(signature_of(graph, 0).find("transpose_b=1") != std::string::npos);
  CHECK(signature_of(graph, 2) == signature_of(graph, 0));  // other values of the same types
  CHECK(signature_of(graph, 3) == signature_of(graph, 1));  // another stream of random numbers
}

TEST_CASE("measured operations take what was measured, others what the rates say") {
  const Graph graph = small_graph();
  Machine machine;
  const CostModel by_rates(graph, machine);
  machine.operations[signature_of(graph, 0)] = {.compute = 0.25, .host = 0.5};
  machine.operations["another(f32[1]) -> f32[1]"] = {.compute = 7};
  const CostModel measured(graph, machine);
  for (const OpId product : {0, 2}) {
    CHECK(measured.operation_seconds(product) == 0.25);
    CHECK(measured.operation_seconds(product, Lane::kHostCompute) == 0.5);
  }
  CHECK(measured.operation_seconds(1) == by_rates.operation_seconds(1));
  CHECK(measured.operation_seconds(1) > 0);
  CHECK(measured.operation_seconds(1, Lane::kHostCompute) == by_rates.operation_seconds(1));
}

TEST_CASE("a machine survives its JSON file, with shares and operations") {
  Machine machine{.name = "there", .threads = 3, .matrix_flops_f32 = 1e10};
  machine.compute_share[static_cast<size_t>(Lane::kHostToDevice)] = 1.0 / 3;
  machine.operations["a(f32[1]) -> f32[1]"] = {.compute = 0.1, .host = 1e-7};
  machine.operations["b(f32[1]) -> f32[1]"] = {.compute = 1.0 / 7};
  const Machine read = machine_from_json(nlohmann::json::parse(to_json(machine).dump()), "machine.json");
  CHECK(read.operations == machine.operations);
  CHECK(read.compute_share == machine.compute_share);
  CHECK(to_json(read) == to_json(machine));

  nlohmann::json json = to_json(machine);
  json.erase("operations");
  json.erase("compute_share");
  CHECK(machine_from_json(json, "machine.json").operations.empty());
  json["operations"] = {{"a", 3}};
  CHECK_THROWS_WITH_AS((void)machine_from_json(json, "machine.json"),
                       doctest::Contains("[machine.json] expected seconds for the operation 'a'"), InputError);
  json["operations"] = {{"a", {{"compute_seconds", -1}, {"host_seconds", 0}}}};
  CHECK_THROWS_AS((void)machine_from_json(json, "machine.json"), InputError);
}
