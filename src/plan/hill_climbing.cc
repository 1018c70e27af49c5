// The last part of the search: changes of one block or two.
#include "base/index.h"
#include "plan/plan_search.h"

namespace spillway {

bool PlanSearch::improves(const Choices& choices) {
  if (--trials_ < 0) return false;
  const bool had = found_;
  const double before = had ? best_.seconds : 0;
  const int64_t distance_before = min_distance_;
  (void)consider(choices);
  return had ? best_.seconds < before : found_ || min_distance_ < distance_before;
}

bool PlanSearch::change_one_block(const Choices& start) {
  for (size_t block = 0; block < blocks_ && trials_ > 0; ++block) {
    for (const Saved& setting : settings_) {
      Choices choices = start;
      choices.saved[block] = proposals_.followed(block, setting);
      if (choices.saved[block] != start.saved[block] && improves(choices)) return true;
    }
  }
  return false;
}

bool PlanSearch::change_two_blocks(const Choices& start) {
  for (size_t first = 0; first < blocks_; ++first) {
    for (size_t second = first + 1; second < blocks_ && trials_ > 0; ++second) {
      for (const Saved& setting : settings_) {
        Choices choices = start;
        choices.saved[first] = proposals_.followed(first, setting);
        if (choices.saved[first] == start.saved[first]) continue;
        for (const Saved& other : settings_) {
          choices.saved[second] = proposals_.followed(second, other);
          if (choices.saved[second] != start.saved[second] && improves(choices)) return true;
        }
      }
    }
  }
  return false;
}

bool PlanSearch::change_one_home(const Choices& start) {
  for (size_t block = 0; block < blocks_ && trials_ > 0; ++block) {
    for (const Tier tier : kEachBudgetedTier) {
      if (!proposals_.has(tier)) continue;
      for (const RoleSet roles : {kBlockWeights, kStates}) {
        Choices choices = start;
        proposals_.roles().move(choices, roles, static_cast<BlockId>(block), tier);
        if (choices.groups != start.groups && improves(choices)) return true;
      }
    }
  }
  return false;
}

void PlanSearch::change_blocks() {
  // Scheduling takes time with the number of operations; if it is small, most pairs of blocks have their turn.
  constexpr int64_t kStepsToSchedule = 100'000, kSquaresToSchedule = 10'000'000;
  const int64_t ops = builder_.scheduling_work() + 1;
  trials_ = kStepsToSchedule / ops + kSquaresToSchedule / (ops * ops);
  while (trials_ > 0) {
    const Choices start = found_ ? best_.choices : nearest_;
    if (!change_one_block(start) && !change_two_blocks(start) && !change_one_home(start)) break;
  }
}

}  // namespace spillway
