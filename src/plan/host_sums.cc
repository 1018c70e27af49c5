#include "plan/host_sums.h"

#include <numeric>

#include "base/index.h"
#include "graph/operation.h"
#include "plan/cost_model.h"
#include "plan/peer_seconds.h"

namespace spillway {
namespace {

bool is_sum_of_ranks(const Operation& op) { return op.def->collective != nullptr && op.def->held == Held::kPart; }

// Returns the graph with sums of so many neighbours first.
Graph summed_by(const Graph& graph, int64_t together) {
  Graph result = graph;
  for (Operation& op : result.ops)
    if (is_sum_of_ranks(op)) (void)op.attributes.set("together", together);
  return result;
}

double bytes_between_hosts(const Graph& graph, const Program& program, const Machine& machine,
                           const PlanContext& context) {
  double bytes = 0;
  for (const SectionRange& section : program.sections) {
    const auto times = static_cast<double>(context.runs_per_step(section.repeats));
    for (int32_t i = section.begin; i < section.end; ++i) {
      const Instruction& one = nth(program.instructions, i);
      if (one.lane == Lane::kPeer && is_sum_of_ranks(graph.op(one.op)))
        bytes += times * peer_bytes(graph, one.op, machine).between;
    }
  }
  return bytes;
}

}  // namespace

std::optional<PlanContext::HostSums> host_sums(const Graph& graph, const Plan& plan, const Machine& machine,
                                               const PlanContext& context) {
  const int64_t together = std::gcd(context.ranks, machine.ranks_on_host);
  if (together == 1 || together == context.ranks) return {};
  const auto cost_with = [&](int64_t first) {
    const Graph changed = summed_by(graph, first);
    return PlanContext::HostSums::Cost{
        .between_hosts_bytes = static_cast<int64_t>(bytes_between_hosts(changed, plan.program, machine, context)),
        .step_seconds = context.step_seconds(simulate(plan.program, CostModel(changed, machine)))};
  };
  return PlanContext::HostSums{.together = together, .ordered = cost_with(1), .by_host = cost_with(together)};
}

}  // namespace spillway
