#include "infer/inference_plan.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"
#include "base/index.h"

namespace spillway::infer {
namespace {

// The bytes per second of a disk that no run has measured: the model's files are on one in any case.
constexpr double kUnmeasuredDisk = 1e9;

std::vector<Plan> plan_all(const std::vector<const Graph*>& graphs, const Machine& machine, const Budget& first_budget,
                           const Budget& budget, const Policy& policy) {
  const Graph& first = *graphs.front();
  std::vector<Plan> plans = {make_plan(first, machine, first_budget, policy)};
  for (size_t i = 1; i < graphs.size(); ++i)
    plans.push_back(make_plan_beside(first, plans.front().choices, *graphs[i], machine, budget, policy.own_files));
  return plans;
}

std::vector<Plan> plan_within_budget(const std::vector<const Graph*>& graphs, const StoredWeights& stored,
                                     const InferenceBudget& budget, int threads, const Device& device) {
  Machine machine = budget.machine;
  machine.device = device.kind();
  machine.threads = threads;
  for (const Lane lane : {Lane::kDiskRead, Lane::kDiskWrite})
    if (double& rate = nth(machine.link_bytes_per_second, lane); rate == 0) rate = kUnmeasuredDisk;
  Policy policy = saved_policy(ActivationPolicy::kKeep);
  Budget first;
  if (budget.device_bytes) {
    policy.own_files.held = stored.held(graphs.front()->values.size());
    // The disk tier has no room: only the model's files are on the disk. Weights that they do not hold, such as an
    // adapter's factors, are small and stay in memory.
    policy.own_files.are_all_of_disk = true;
    first = {.device = budget.device_bytes, .host = budget.host_bytes, .disk = 1};
  }
  const Budget others{.device = budget.device_bytes};
  std::vector<Plan> plans = plan_all(graphs, machine, first, others, policy);
  int64_t needed = peak_bytes_of(plans);
  // Other programs may need more memory beside the weights than the first: then the first is planned again with that
  // much less.
  while (budget.device_bytes && plans.front().fits && needed > *budget.device_bytes) {
    first.device = plans.front().peaks[0].bytes - (needed - *budget.device_bytes);
    plans = plan_all(graphs, machine, first, others, policy);
    needed = peak_bytes_of(plans);
  }
  return plans;
}

bool has_room(const Device& device, int64_t needed) {
  return device.shares_host_memory() || needed <= device.free_bytes();
}

}  // namespace

std::vector<Plan> plan_inference(const std::vector<const Graph*>& graphs, const StoredWeights& stored,
                                 const InferenceBudget& budget, int threads, const Device& device) {
  std::vector<Plan> plans = plan_within_budget(graphs, stored, budget, threads, device);
  const int64_t needed = peak_bytes_of(plans);
  if (budget.device_bytes && needed > *budget.device_bytes)
    throw input_error("--memory.device", "expected at least {}, got {}; raise it, or {}", format_bytes_up(needed),
                      format_bytes(*budget.device_bytes), budget.instead);
  if (!has_room(device, needed))
    throw machine_error("device", "expected {} of its memory, got {}; use --device cpu", format_bytes(needed),
                        format_bytes(device.free_bytes()));
  return plans;
}

std::optional<std::vector<Plan>> plans_within(const std::vector<const Graph*>& graphs, const StoredWeights& stored,
                                              const InferenceBudget& budget, int threads, const Device& device) {
  std::vector<Plan> plans = plan_within_budget(graphs, stored, budget, threads, device);
  const int64_t needed = peak_bytes_of(plans);
  if (needed > *budget.device_bytes || !has_room(device, needed)) return std::nullopt;
  return plans;
}

int64_t peak_bytes_of(const std::vector<Plan>& plans, Tier tier) {
  int64_t most = 0;
  for (const Plan& plan : plans) most = std::max(most, nth(plan.peaks, tier).bytes);
  return most;
}

}  // namespace spillway::infer
