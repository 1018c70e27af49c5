#include "cli/step_bar.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/index.h"
#include "job/tiers.h"

namespace spillway {

std::vector<TierMemory> memory_of_tiers(const train::PlannedJob& planned) {
  const Budget& budget = planned.context.budget;
  std::vector<TierMemory> tiers;
  for (size_t i = 0; i < kBudgetedTiers; ++i) {
    const auto tier = static_cast<Tier>(i);
    const int64_t peak = train::peak_bytes(planned, tier);
    if (peak > 0) tiers.push_back({name_of(tier), peak, budget.of(tier).value_or(0)});
  }
  return tiers;
}

StepBar::StepBar(Progress& progress, std::vector<TierMemory> tiers, const train::Ranks& ranks)
    : progress_(progress), tiers_(std::move(tiers)) {
  for (int i = 0; ranks.are_several() && i < ranks.size(); ++i) rank_names_.push_back(ranks.name_of(i));
}

void StepBar::begin_step(int64_t step, int64_t total_steps, double seconds) {
  if (state_.total_steps == 0) state_ = {.step = step, .total_steps = total_steps, .tiers = tiers_};
  progress_.begin_step(state_, seconds, now_seconds());
}

void StepBar::end_step(const train::StepRecord& r) {
  constexpr double kWorthNaming = 0.05;  // of a step
  state_ = {.step = r.step,
            .total_steps = r.total_steps,
            .loss = r.loss,
            .tokens_per_second = r.tokens_per_second,
            .tiers = tiers_};
  const double share = r.slowest ? r.slowest->waited_seconds / std::max(1e-9, r.step_seconds) : 0;
  if (share >= kWorthNaming) {
    state_.slowest = nth(rank_names_, r.slowest->rank);
    state_.waited_share = share;
  }
  progress_.update(state_, now_seconds());
}

}  // namespace spillway
