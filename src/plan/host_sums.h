// The cost of gradients that are added up in the order of micro-batches, and of those that are added up host by host.
#pragma once

#include <optional>

#include "plan/machine.h"
#include "plan/plan_context.h"

namespace spillway {

// Returns both for a job whose ranks are machine.ranks_on_host neighbours a host, each by a simulation of the plan's
// program; nothing where no two ranks of one host send to another host.
[[nodiscard]] std::optional<PlanContext::HostSums> host_sums(const Graph& graph, const Plan& plan,
                                                             const Machine& machine, const PlanContext& context);

}  // namespace spillway
