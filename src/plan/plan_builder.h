// Builds a Plan from Choices, for one graph and machine: schedule, offsets, program and predicted time.
#pragma once

#include <array>
#include <limits>
#include <vector>

#include "plan/offsets.h"
#include "plan/planner.h"

namespace spillway {

// By section: the seconds that each lane is busy.
using LaneWork = std::vector<std::array<double, kLanes>>;

// The most live bytes of each budgeted tier in each part of each section, in order.
constexpr int kSectionParts = 4;
using PartBytes = std::vector<std::array<int64_t, kBudgetedTiers>>;

// Returns by how much arenas of these sizes exceed the budget, summed over all tiers.
[[nodiscard]] int64_t missing_bytes(const std::array<int64_t, kTiers>& arenas, const Budget& budget);
// Sets plan.missing_bytes and plan.fits for the budget.
void compare_with(Plan& plan, const Budget& budget);

// So much PlanBuilder::scheduling_work() takes a tenth of a second a plan: searches then look at fewer of them.
constexpr int64_t kManyOperations = 30'000;

class PlanBuilder {
 public:
  static constexpr int64_t kAllApart = std::numeric_limits<int64_t>::max();

  // Computes once what every plan of the graph needs. Borrows the graph. Joins neighbouring experts (plan/bundles.h) if
  // that leaves out at least `least_left_out` values and operations: such a builder is for searches.
  PlanBuilder(const Graph& graph, const Machine& machine, OwnFiles own_files, int64_t least_left_out = kAllApart);

  // REQUIRES: nothing is left out.
  [[nodiscard]] Plan build(const Choices& choices, PackEffort effort = PackEffort::kThorough) const;
  // Build a plan in steps, without the program: schedule() gives the live bytes and a lower bound of each lane's busy
  // time, place() the offsets and arenas, and predict() its time. Before place(), predict() gives the time that it
  // takes if no memory is used twice; a plan with offsets takes no less, except for rounding and for the speed that
  // lanes lose to each other. `parts` gets the live bytes.
  [[nodiscard]] Plan schedule(const Choices& choices, PartBytes* parts = nullptr) const;
  void place(Plan& plan, PackEffort effort) const;
  void predict(Plan& plan) const;
  [[nodiscard]] LaneWork work_of(const Schedule& schedule) const;
  // Returns a lower bound for the seconds of an optimizer step of any plan with this work: the busy time of the busiest
  // lane, or that of the compute lane slowed down by the share of its speed that the others take.
  [[nodiscard]] double min_seconds(const LaneWork& work, int64_t accumulation) const;

  // Returns what scheduling takes time with: the operations, and the persistent values of experts that come for one
  // use, as each moves by itself.
  [[nodiscard]] int64_t scheduling_work() const { return scheduling_work_; }
  // Returns the number of values and operations that are left out, since others stand for them.
  [[nodiscard]] int64_t left_out() const { return left_out_; }
  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] const CostModel& costs() const { return costs_; }

 private:
  // Returns the bytes that a transfer is expected to move, or a collective sends; 0 for other operations.
  [[nodiscard]] int64_t moved_bytes(const Schedule& schedule, const Step& step) const;
  [[nodiscard]] double seconds_of(const Schedule& schedule, const Step& step) const;

  const Graph& graph_;
  OwnFiles own_files_;
  CostModel costs_;
  GraphFacts facts_;
  int64_t scheduling_work_ = 0, left_out_ = 0;
};

}  // namespace spillway
