#include "plan/plan_builders.h"

#include <algorithm>

#include "base/index.h"

namespace spillway {
namespace {

// Where fewer values can be left out, a search is quick enough with all of them.
constexpr int64_t kManyLeftOut = 1'000;

// Returns a budget from which the bytes that a plan takes too much are taken off.
Budget less_by(Budget budget, const Plan& plan) {
  const auto take_off = [&](std::optional<int64_t>& bytes, Tier tier) {
    if (bytes) bytes = std::max<int64_t>(0, *bytes - nth(plan.missing_bytes, tier));
  };
  take_off(budget.device, Tier::kDevice);
  take_off(budget.host, Tier::kHost);
  take_off(budget.disk, Tier::kDisk);
  return budget;
}

}  // namespace

PlanBuilders::PlanBuilders(const Graph& graph, const Machine& machine, const OwnFiles& own_files)
    : of_search_(graph, machine, own_files, kManyLeftOut) {
  if (of_search_.left_out() > 0) whole_.emplace(graph, machine, own_files);
}

Plan PlanBuilders::plan_of(const Search& search, const Budget& budget) const {
  Budget room = budget;
  for (int attempts = whole_ ? 2 : 0; attempts > 0; --attempts) {
    const Found found = search(of_search_, room);
    Plan plan = whole().build(found.choices);
    compare_with(plan, budget);
    if (plan.fits) return plan;
    if (!found.fits) break;
    room = less_by(room, plan);
  }
  const Found found = search(whole(), budget);
  Plan plan = whole().build(found.choices, found.effort);
  compare_with(plan, budget);
  return plan;
}

}  // namespace spillway
