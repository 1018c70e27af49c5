#include "plan/cost_model.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/index.h"
#include "graph/builder.h"
#include "graph/operation.h"
#include "ops/add/add.h"
#include "ops/dropout/dropout.h"
#include "ops/matmul/matmul.h"
#include "plan/planner.h"
#include "plan/signature.h"

using namespace spillway;

namespace {

// Returns a graph of two products of equal sizes, and a dropout after each.
Graph small_graph() {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kBF16, {64, 32}, kTokenAxis}, ValueKind::kBatch);
  const ValueId seed = b.input("seed", {DType::kI64, {1}}, ValueKind::kBatch);
  for (int i = 0; i < 2; ++i) {
    const ValueId w = b.input(fmt::format("w{}", i), {DType::kBF16, {16, 32}}, ValueKind::kFrozenWeight);
    b.result(ops::dropout(b, ops::matmul(b, x, w, {.transpose_b = true}), seed, 0.1, i));
  }
  graph.axes = {{"tokens", 64}};
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

TEST_CASE("updates of other rows of a weight, as many as those, have one signature") {
  Graph graph;
  Builder b(graph);
  const auto infer = [](TypeList inputs, const Attributes&) { return std::vector<ValueType>{*inputs[0]}; };
  static const OpDef kUpdate{.name = "update", .infer = infer};
  const ValueId weight = b.input("weight", {DType::kBF16, {64, 32}}, ValueKind::kTrainableWeight);
  for (const auto& [first, rows] : {std::pair<int64_t, int64_t>{0, 16}, {16, 16}, {32, 32}})
    (void)b.append_one(kUpdate, {weight}, {{"first_row", first}, {"rows", rows}});
  CHECK(signature_of(graph, 0) == "update(bf16[64, 32]) -> bf16[64, 32] rows=16");
  CHECK(signature_of(graph, 1) == signature_of(graph, 0));
  CHECK(signature_of(graph, 2) != signature_of(graph, 0));
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

TEST_CASE("on a GPU an update on the host goes at the host's rate, and kernels get the scratch that theirs need") {
  Graph graph{.name = "gpu"};
  Builder b(graph);
  const ValueType type{DType::kBF16, {4096, 4096}};
  const ValueId x = b.input("x", type, ValueKind::kBatch), w = b.input("w", type, ValueKind::kFrozenWeight);
  b.result(ops::matmul(b, x, w));
  b.result(ops::add(b, x, w));
  Machine gpu{.device = DeviceKind::kCuda, .memory_bytes_per_second = 4e12, .operation_seconds = 0};
  gpu.host_bytes_per_second = 1e11;
  const CostModel costs(graph, gpu);
  CHECK(costs.operation_seconds(1) == doctest::Approx(3 * 2 * 4096 * 4096 / 4e12));
  CHECK(costs.operation_seconds(1, Lane::kHostCompute) == doctest::Approx(3 * 2 * 4096 * 4096 / 1e11));
  CHECK(workspace_of(graph, 0, 1, DeviceKind::kCuda) >= 32 << 20);
  const Plan plan = plan_for(graph, gpu, uniform_choices(graph, ActivationPolicy::kKeep));
  CHECK(plan.program.instructions[0].workspace.bytes == workspace_of(graph, 0, 1, DeviceKind::kCuda));
  for (const int64_t offset : plan.offsets) CHECK(offset % 256 == 0);
}

TEST_CASE("a product that has f32 on either side goes at the f32 rate") {
  Graph graph{.name = "f32"};
  Builder b(graph);
  const Shape square{4096, 4096};
  const ValueId narrow = b.input("x", {DType::kBF16, square}, ValueKind::kBatch);
  const ValueId wide = b.input("w", {DType::kF32, square}, ValueKind::kFrozenWeight);
  for (const ValueId x : {narrow, wide}) {
    for (const ValueId w : {narrow, wide}) b.result(ops::matmul(b, x, w));
  }
  Machine gpu{.device = DeviceKind::kCuda, .memory_bytes_per_second = 1e18, .operation_seconds = 0};
  gpu.matrix_flops_bf16 = 8e14;
  gpu.matrix_flops_f32 = 5e13;
  const CostModel costs(graph, gpu);
  const double flops = 2.0 * 4096 * 4096 * 4096;
  CHECK(costs.operation_seconds(0) == doctest::Approx(flops / 8e14));
  for (const OpId id : {1, 2, 3}) CHECK(costs.operation_seconds(id) == doctest::Approx(flops / 5e13));
}

TEST_CASE("an operation with a rate of its own goes at it where its data is bf16") {
  Graph graph{.name = "own"};
  Builder b(graph);
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    const ValueId x = b.input(std::string(name_of(dtype)), {dtype, {4096, 4096}}, ValueKind::kBatch);
    b.result(ops::matmul(b, x, x));
  }
  Machine gpu{.device = DeviceKind::kCuda, .memory_bytes_per_second = 1e18, .operation_seconds = 0};
  gpu.matrix_flops_f32 = 5e13;
  gpu.operation_flops["matmul"] = 4e14;
  const CostModel costs(graph, gpu);
  const double flops = 2.0 * 4096 * 4096 * 4096;
  CHECK(costs.operation_seconds(0) == doctest::Approx(flops / 4e14));
  CHECK(costs.operation_seconds(1) == doctest::Approx(flops / 5e13));
}

TEST_CASE("the machines that the repository describes can be planned for") {
  for (const char* name : {"h200.json", "rtx4090.json"}) {
    std::ifstream file(std::filesystem::path(SPILLWAY_SOURCE_DIR) / "machines" / name);
    const Machine machine = machine_from_json(nlohmann::json::parse(file), name);
    CHECK(machine.device == DeviceKind::kCuda);
    CHECK(nth(machine.capacity_bytes, Tier::kHost) > 0);
    CHECK(machine.operation_flops.contains("attention"));
    CHECK(machine.host_bytes_per_second > nth(machine.link_bytes_per_second, Lane::kHostToDevice));
  }
}

TEST_CASE("a machine survives its JSON file, with all that it knows") {
  Machine machine{.name = "there", .device = DeviceKind::kCuda, .threads = 3, .matrix_flops_f32 = 1e10};
  machine.operation_flops["attention"] = 5e11;
  machine.algorithms["512x512x512"] = 3;
  machine.disks = "8:1 259:3";
  nth(machine.compute_share, Lane::kHostToDevice) = 1.0 / 3;
  nth(machine.opposite_share, Lane::kDiskRead) = 0.4;
  nth(machine.link_latency_seconds, Lane::kDiskWrite) = 3e-4;
  machine.operations["a(f32[1]) -> f32[1]"] = {.compute = 0.1, .host = 1e-7};
  machine.operations["b(f32[1]) -> f32[1]"] = {.compute = 1.0 / 7, .cpu_share = 0.5};
  machine.total_bytes = {1, 2, 3};
  machine.measured.operations["a(f32[1]) -> f32[1]"] = {.compute = 0.08};
  nth(machine.measured.link_bytes_per_second, Lane::kDiskRead) = 1e9;
  machine.cpu_shares.disks = 0.25;
  const Machine read = machine_from_json(nlohmann::json::parse(to_json(machine).dump()), "machine.json");
  CHECK(read.operations == machine.operations);
  CHECK(read.measured.operations == machine.measured.operations);
  CHECK(read.measured.link_bytes_per_second == machine.measured.link_bytes_per_second);
  CHECK(read.cpu_shares.disks == 0.25);
  CHECK(read.operation_flops == machine.operation_flops);
  CHECK(read.disks == machine.disks);
  CHECK(read.total_bytes == machine.total_bytes);
  CHECK(read.compute_share == machine.compute_share);
  CHECK(read.opposite_share == machine.opposite_share);
  CHECK(read.link_latency_seconds == machine.link_latency_seconds);
  CHECK(to_json(read) == to_json(machine));

  nlohmann::json json = to_json(machine);
  json.erase("operations");
  json.erase("compute_share");
  json.erase("opposite_share");
  json.erase("link_latency_seconds");
  json.erase("total_bytes");
  json["capacity_bytes"]["host"] = 7;
  CHECK(nth(machine_from_json(json, "machine.json").total_bytes, Tier::kHost) == 7);  // all that is known of
  json.erase("disks");
  json.erase("measured");
  json.erase("cpu_shares");
  CHECK(machine_from_json(json, "machine.json").operations.empty());
  json["threads"] = 3e9;
  CHECK_THROWS_WITH_AS((void)machine_from_json(json, "machine.json"),
                       doctest::Contains("[machine.json] expected 'threads' to be between zero and 2147483647, got"),
                       InputError);
  json["threads"] = 3;
  json["device"] = "tpu";
  CHECK_THROWS_WITH_AS((void)machine_from_json(json, "machine.json"),
                       doctest::Contains("[machine.json] expected 'device' to be cpu or cuda"), InputError);
  json.erase("device");
  CHECK(machine_from_json(json, "machine.json").device == DeviceKind::kCpu);
  json["algorithms"] = {{"a", -1}};
  CHECK_THROWS_AS((void)machine_from_json(json, "machine.json"), InputError);
  json.erase("algorithms");
  json["operations"] = {{"a", 3}};
  CHECK_THROWS_WITH_AS((void)machine_from_json(json, "machine.json"),
                       doctest::Contains("[machine.json] expected seconds for the operation 'a'"), InputError);
  json["operations"] = {{"a", {{"compute_seconds", -1}, {"host_seconds", 0}}}};
  CHECK_THROWS_AS((void)machine_from_json(json, "machine.json"), InputError);
}
