#include "report/run_report.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "graph/operation.h"
#include "runtime/memory.h"

namespace spillway {
namespace {

using nlohmann::ordered_json;

ordered_json tiers_json(const train::PlannedJob& planned, const Executor& executor) {
  const Budget& budget = planned.context.budget;
  const std::optional<int64_t> budgets[kBudgetedTiers] = {budget.device, budget.host, budget.disk};
  ordered_json tiers;
  for (int tier = 0; tier < kBudgetedTiers; ++tier) {
    const auto i = static_cast<size_t>(tier);
    tiers[std::string(name_of(static_cast<Tier>(tier)))] = {
        {"budget_bytes", budgets[i].value_or(0)},
        {"planned_peak_bytes", planned.plan.peaks[i].bytes},
        {"measured_peak_bytes", executor.measured_peak_bytes(static_cast<Tier>(tier))}};
  }
  return tiers;
}

// The arithmetic that one pass over the program costs by its operations' own account, and the bytes they move.
Cost program_cost(const Graph& graph, const Program& program, Phase phase) {
  Cost sum;
  for (const Section& section : program.sections) {
    if (section.phase != phase) continue;
    for (int32_t i = section.begin; i < section.end; ++i) {
      const Instruction& instruction = program.instructions[static_cast<size_t>(i)];
      if (instruction.kind != Instruction::Kind::kRun) continue;
      const Cost cost = cost_of(graph, instruction.op);
      sum.flops += cost.matrix_product ? cost.flops : 0;
      sum.bytes += cost.bytes;
    }
  }
  return sum;
}

}  // namespace

std::vector<OperationTime> time_by_operation(const Graph& graph, const Program& program, const Executor& executor) {
  std::map<std::string_view, OperationTime> by_name;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (program.instructions[i].kind != Instruction::Kind::kRun) continue;
    const std::string_view name = graph.op(program.instructions[i].op).def->name;
    OperationTime& time = by_name[name];
    time.name = name;
    time.calls += executor.profile()[i].calls;
    time.seconds += executor.profile()[i].seconds;
  }
  std::vector<OperationTime> result;
  for (const auto& [name, time] : by_name) result.push_back(time);
  std::stable_sort(result.begin(), result.end(),
                   [](const OperationTime& a, const OperationTime& b) { return a.seconds > b.seconds; });
  return result;
}

ordered_json run_report(const train::PlannedJob& planned, const train::TrainingSession& session,
                        const train::TrainingOutcome& outcome) {
  const Graph& graph = planned.training.graph;
  const Program& program = planned.plan.program;
  const Executor& executor = session.executor();
  const std::vector<OperationTime> times = time_by_operation(graph, program, executor);
  double busy = 0;
  for (const OperationTime& time : times) busy += time.seconds;
  int64_t arenas = 0;
  for (const int64_t bytes : program.arena_bytes) arenas += bytes;
  const int64_t rss = peak_rss_bytes();

  ordered_json report = {{"tiers", tiers_json(planned, executor)},
                         {"process", {{"peak_rss_bytes", rss}, {"outside_arenas_bytes", rss - arenas}}}};
  for (int lane = 0; lane < kLanes; ++lane) {
    const bool compute = static_cast<Lane>(lane) == Lane::kCompute;
    report["lanes"][std::string(name_of(static_cast<Lane>(lane)))] = {{"bytes", 0},
                                                                      {"busy_seconds", compute ? busy : 0.0}};
  }
  report["step"] = {{"predicted_seconds", planned.plan.simulation.step_seconds(planned.context.accumulation)},
                    {"median_seconds", outcome.median_step_seconds},
                    {"compute_stall_seconds", 0.0}};
  report["tokens_per_second"] =
      outcome.step_seconds_sum > 0 ? static_cast<double>(outcome.tokens) / outcome.step_seconds_sum : 0.0;
  report["steps"] = outcome.steps;
  report["operations"] = ordered_json::array();
  for (const OperationTime& time : times) {
    report["operations"].push_back({{"name", time.name}, {"calls", time.calls}, {"seconds", time.seconds}});
  }
  const Cost forward = program_cost(graph, program, Phase::kForward),
             backward = program_cost(graph, program, Phase::kBackward);
  report["planned_flops_per_micro_step"] = forward.flops + backward.flops;
  return report;
}

}  // namespace spillway
