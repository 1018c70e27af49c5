// Plans one graph for several budgets, quickly: for questions that are answered by many plans.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "plan/candidates.h"
#include "plan/plan_builders.h"
#include "plan/planner.h"
#include "plan/search.h"

namespace spillway {

// All budgets share the results for plans that are known. A search is a quick one (SearchEffort), and starts also from
// the plans that were found for other budgets: so a plan may take a little longer than that of make_plan(). Not
// thread-safe.
class SeriesPlanner {
 public:
  // The forecast of the most promising candidate within a budget (plan/forecast.h), which knows no waiting.
  struct Outlook {
    double missing_bytes = std::numeric_limits<double>::infinity();
    double seconds = std::numeric_limits<double>::infinity();  // of an optimizer step
  };

  // Borrows the graph. The plans are for optimizer steps of `accumulation` micro-batches.
  SeriesPlanner(const Graph& graph, const Machine& machine, Policy policy, int64_t accumulation);

  // Returns the seconds for which the device computes in a step at least, whatever the budget: that of all operations
  // of its micro-batches that cannot run on the host, once.
  [[nodiscard]] double computing_seconds() const;
  [[nodiscard]] Outlook outlook(const Budget& budget);
  // Adds choices from which searches start, beside those that were found. REQUIRES: of a graph with the same groups and
  // blocks.
  void start_from(const Choices& choices) { found_.push_back(choices); }
  // Returns a plan; if none fits, one that comes near. It depends on the budgets before, but not on outlooks.
  [[nodiscard]] Plan plan(const Budget& budget);
  // Returns the figures of the plans of coarse searches (SearchEffort) for several budgets, each as if no other of them
  // had been asked for. Searches on all CPUs; the result does not depend on their number.
  [[nodiscard]] std::vector<Found> coarse_plans(std::span<const Budget> budgets);

 private:
  Policy policy_;
  PlanBuilders builders_;
  int64_t accumulation_;
  KnownPlans known_;
  std::vector<Choices> found_;  // from which searches start: also of plans that fit their budgets
};

}  // namespace spillway
