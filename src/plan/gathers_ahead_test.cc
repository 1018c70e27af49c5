#include "plan/gathers_ahead.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/index.h"
#include "graph/builder.h"
#include "ops/add/add.h"
#include "ops/collectives/all_gather/all_gather.h"
#include "ops/collectives/part.h"
#include "plan/signature.h"

using namespace spillway;

namespace {

// Additions of one second, each of which reads a weight that is gathered right before it.
Graph chain_of_gathers() {
  Graph graph;
  Builder b(graph);
  const ValueType whole{DType::kF32, {2 * kCutBlock}};
  ValueId x = b.input("x", whole, ValueKind::kFrozenWeight);
  for (int i = 0; i < 4; ++i) {
    const ValueId part = b.input(fmt::format("part.{}", i), ops::part_type(whole, 2), ValueKind::kFrozenWeight);
    b.split(part);
    x = ops::add(b, x, ops::all_gather(b, part, whole.shape, 2));
  }
  b.result(x);
  return graph;
}

// Returns the order in which the operations run, "g0 a0 g1 ..." for the first gather, the first addition, and so on.
std::string order_of(Overlap overlap, double gather_seconds) {
  const Graph graph = chain_of_gathers();
  Machine machine;
  machine.operation_seconds = 0;
  machine.operations[signature_of(graph, 1)] = {.compute = 1, .host = 1};
  const auto sent = static_cast<double>(kCutBlock) * sizeof(float);
  nth(machine.link_bytes_per_second, Lane::kPeer) = sent / gather_seconds;
  const CostModel costs(graph, machine);
  CHECK(costs.operation_seconds(0, Lane::kPeer) == doctest::Approx(gather_seconds).epsilon(0.01));
  const GraphFacts facts = facts_of(graph);
  const Placement placement = place_values(graph, facts, uniform_choices(graph, ActivationPolicy::kKeep), {});
  Sequence sequence = make_sequence(graph, facts, placement);
  run_gathers_ahead(facts, placement, costs, overlap, sequence);
  std::string order;
  for (const Execution& one : sequence.executions)
    order += fmt::format("{}{}{}", order.empty() ? "" : " ", one.op % 2 == 0 ? "g" : "a", one.op / 2);
  return order;
}

}  // namespace

TEST_CASE("a gather begins as late as its lane's rate allows, and half its own time earlier") {
  CHECK(order_of(Overlap::kWide, 0.5) == "g0 g1 a0 g2 a1 g3 a2 a3");
  CHECK(order_of(Overlap::kWide, 1e-3) == "g0 g1 a0 g2 a1 g3 a2 a3");
}

TEST_CASE("gathers that take long run first, and no more wait for their readers than the overlap allows") {
  CHECK(order_of(Overlap::kWide, 10) == "g0 g1 g2 g3 a0 a1 a2 a3");
  CHECK(order_of(Overlap::kNarrow, 10) == "g0 g1 a0 g2 a1 g3 a2 a3");
}

TEST_CASE("without overlap each gather runs where its reader wants it") {
  CHECK(order_of(Overlap::kSynchronous, 10) == "g0 a0 g1 a1 g2 a2 g3 a3");
}
