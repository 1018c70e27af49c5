#include "report/step_difference.h"

#include <fmt/format.h>

#include <cmath>

#include "plan/machine.h"

namespace spillway {

std::vector<std::string> reasons_of_difference(const ComparedSteps& steps) {
  constexpr double kWorthSaying = 0.1;
  constexpr double kFull = 0.95;  // of the planned tokens
  const double gap = steps.measured_seconds - steps.predicted_seconds;
  if (steps.measured_seconds <= 0 || std::abs(gap) < kWorthSaying * steps.predicted_seconds) return {};
  std::vector<std::string> reasons;
  const auto percent = [](double share) { return fmt::format("{:.0f} %", 100 * share); };
  if (gap > 0) {
    if (steps.cpu_share < kMinCpuShare)
      reasons.push_back(fmt::format("computing threads had {} of the CPU time that they wanted: other programs ran",
                                    percent(steps.cpu_share)));
    if (const double more = steps.measured_stall_seconds - steps.predicted_stall_seconds; more > gap / 3)
      reasons.push_back(fmt::format("computation waited {:.3g} s of a step for {}, where {:.3g} s were predicted",
                                    steps.measured_stall_seconds,
                                    steps.has_other_ranks ? "other ranks, copies or the disk" : "copies or the disk",
                                    steps.predicted_stall_seconds));
  } else {
    if (steps.cpu_share_when_measured < kMinCpuShare)
      reasons.push_back(fmt::format("when the machine was measured, threads had {} of the CPU time that they wanted",
                                    percent(steps.cpu_share_when_measured)));
    if (steps.mean_tokens > 0 && steps.mean_tokens < kFull * steps.planned_tokens)
      reasons.push_back(fmt::format("steps had {:.0f} tokens on average, and the prediction is for {:.0f}",
                                    steps.mean_tokens, steps.planned_tokens));
  }
  return reasons;
}

}  // namespace spillway
