// Tests tables: embeddings from which a pass reads only some rows. In host memory, they stay there and are looked up
// there.
#include <doctest/doctest.h>

#include <algorithm>
#include <utility>

#include "base/index.h"
#include "graph/builder.h"
#include "ops/embedding/embedding.h"
#include "ops/matmul/matmul.h"
#include "plan/planner.h"
#include "plan/shown_homes.h"
#include "plan/verify.h"

using namespace spillway;

namespace {

constexpr int64_t kRows = 4096, kColumns = 32, kIds = 16;

// A network with three blocks of a product between an embedding and a head, which may be the same weight.
struct TableNetwork {
  Graph graph{.name = "training", .axes = {{"tokens", kIds}}};
  ValueId table = kNone;

  explicit TableNetwork(bool tied = false) {
    Builder b(graph);
    const ValueId ids = b.input("ids", {DType::kI32, {kIds}, kTokenAxis}, ValueKind::kBatch);
    const auto weight = [&](const char* name, const Shape& shape, std::string_view part = {}) {
      return b.input(name, {DType::kF32, shape}, ValueKind::kFrozenWeight, part);
    };
    table = weight("table", {kRows, kColumns}, tied ? std::string_view() : kTablePart);
    ValueId x = ops::embedding(b, ids, table);
    for (const char* layer : {"0", "1", "2"}) {
      b.begin_block(layer);
      x = ops::linear(b, x, weight(layer, {kColumns, kColumns}));
      b.end_block();
    }
    b.result(ops::linear(b, x, tied ? table : weight("head", {kColumns, kColumns})));
  }

  [[nodiscard]] OpId lookup() const { return 0; }
  [[nodiscard]] int64_t table_bytes() const { return graph.value(table).type.bytes(); }
};

Machine linked_machine() {
  Machine machine;
  machine.link_bytes_per_second.fill(1e9);
  return machine;
}

Lane lane_of(const Plan& plan, OpId op) {
  const auto& steps = plan.schedule.steps;
  return std::find_if(steps.begin(), steps.end(), [&](const Step& step) { return step.op == op; })->lane;
}

bool is_moved(const Plan& plan, ValueId value) {
  const auto& steps = plan.schedule.steps;
  return std::any_of(steps.begin(), steps.end(),
                     [&](const Step& step) { return step.op == kNone && step.moved == value; });
}

Choices tables_on(const Graph& graph, Tier tier) {
  Choices choices = uniform_choices(graph, ActivationPolicy::kKeep);
  move_groups(graph, {.part = kTablePart}, tier, choices);
  return choices;
}

Tier tables_of(const TableNetwork& net, const Plan& plan) { return shown_homes(net.graph, plan.choices).tables; }

Plan plan_with_tables_on(const TableNetwork& net, Tier tier) {
  Plan plan = plan_for(net.graph, linked_machine(), tables_on(net.graph, tier));
  CHECK(verify(net.graph, plan.program, {}).empty());
  return plan;
}

}  // namespace

TEST_CASE("a table in host memory is looked up there and goes nowhere") {
  const TableNetwork net;
  const Plan plan = plan_with_tables_on(net, Tier::kHost);
  CHECK(lane_of(plan, net.lookup()) == Lane::kHostCompute);
  CHECK_FALSE(is_moved(plan, net.table));
  CHECK(is_moved(plan, net.graph.op(net.lookup()).inputs[0]));   // the ids, to the host
  CHECK(is_moved(plan, net.graph.op(net.lookup()).outputs[0]));  // the rows, to the device
  CHECK(plan.peaks[0].bytes < net.table_bytes());
}

TEST_CASE("a table on the disk comes to the device, where it is looked up") {
  const TableNetwork net;
  const Plan plan = plan_with_tables_on(net, Tier::kDisk);
  CHECK(lane_of(plan, net.lookup()) == Lane::kCompute);
  CHECK(is_moved(plan, net.table));
}

TEST_CASE("an embedding that is the head, too, is none of the tables") {
  const TableNetwork net(true);
  const Plan plan = plan_with_tables_on(net, Tier::kHost);
  CHECK(lane_of(plan, net.lookup()) == Lane::kCompute);
  CHECK(plan.peaks[0].bytes >= net.table_bytes());
  CHECK(tables_of(net, make_plan(net.graph, linked_machine(), {.host = 1 << 30}, {})) == Tier::kDevice);
}

TEST_CASE("what is a table is the same in all graphs of a job, whatever each of them reads") {
  const TableNetwork net;
  const Choices choices = tables_on(net.graph, Tier::kHost);
  const Plan first = plan_for(net.graph, linked_machine(), choices);
  for (const bool reads_all : {false, true}) {
    Graph other{.name = "other", .axes = net.graph.axes};
    Builder b(other);
    b.adopt(net.graph);
    const ValueId x = b.input("x", {DType::kF32, {kIds, kColumns}, kTokenAxis}, ValueKind::kBatch);
    const char* weight = reads_all ? "table" : "head";
    const Shape shape = {reads_all ? kRows : kColumns, kColumns};
    b.result(ops::linear(b, x, b.input(weight, {DType::kF32, shape}, ValueKind::kFrozenWeight)));
    const Plan beside = make_plan_beside(net.graph, choices, other, linked_machine(), {});
    CHECK(verify(other, beside.program, {}).empty());
    CHECK(verify_shared_homes(net.graph, first.program, other, beside.program).empty());
  }
}

TEST_CASE("where the device has no room for a table the plan leaves it in host memory, and it costs no copy of it") {
  const TableNetwork net;
  const Machine machine = linked_machine();
  const Plan all = make_plan(net.graph, machine, {}, {});
  CHECK(tables_of(net, all) == Tier::kDevice);
  const Budget budget{.device = all.peaks[0].bytes - net.table_bytes() / 2, .host = 1 << 30};
  const Plan plan = make_plan(net.graph, machine, budget, {});
  REQUIRE(plan.fits);
  CHECK(tables_of(net, plan) == Tier::kHost);
  CHECK(shown_homes(net.graph, plan.choices).outer_weights == Tier::kDevice);
  const double copy_seconds = static_cast<double>(net.table_bytes()) / 1e9;
  CHECK(plan.simulation.step_seconds(1) < all.simulation.step_seconds(1) + copy_seconds / 2);
}

TEST_CASE("where the user has said where weights outside blocks live, tables live there, too") {
  const TableNetwork net;
  for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kDisk}) {
    Policy policy;
    policy.rules = {{{.kind = ValueKind::kFrozenWeight, .in_block = false}, tier}};
    CHECK(tables_of(net, make_plan(net.graph, linked_machine(), {.host = 1 << 30, .disk = 1 << 30}, policy)) == tier);
  }
}
