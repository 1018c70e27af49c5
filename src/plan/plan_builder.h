// Choices -> Plan, for one graph and machine: schedule, offsets, program and predicted time.
#pragma once

#include <array>
#include <vector>

#include "plan/offsets.h"
#include "plan/planner.h"

namespace spillway {

// By section: how long each lane is busy.
using LaneWork = std::vector<std::array<double, kLanes>>;

// Most live bytes of each budgeted tier in each part of each section, in order.
constexpr int kSectionParts = 4;
using PartBytes = std::vector<std::array<int64_t, kBudgetedTiers>>;

// By how much arenas of these sizes exceed the budget, all tiers together.
[[nodiscard]] int64_t missing_bytes(const std::array<int64_t, kTiers>& arenas, const Budget& budget);
// Fills in what the plan misses of the budget, and whether it fits.
void compare_with(Plan& plan, const Budget& budget);

class PlanBuilder {
 public:
  // Computes once what every plan of the graph needs. The graph is borrowed. Its tables are found, or, where another
  // graph of the job has said so, those of `tables`, by value.
  PlanBuilder(const Graph& graph, const Machine& machine, OwnFiles own_files,
              const std::vector<bool>* tables = nullptr);

  [[nodiscard]] Plan build(const Choices& choices, PackEffort effort = PackEffort::kThorough) const;
  // The same in steps, without the program: the schedule says what is live when, and how long each lane is busy at
  // least; offsets say what arenas it takes, and only then can its time be predicted.
  // `parts` gets the live bytes.
  [[nodiscard]] Plan schedule(const Choices& choices, PartBytes* parts = nullptr) const;
  void place(Plan& plan, PackEffort effort) const;
  void predict(Plan& plan) const;
  [[nodiscard]] LaneWork work_of(const Schedule& schedule) const;
  // A lower bound for the seconds of an optimizer step of any plan with this work: what the busiest lane needs, or the
  // compute lane with the share of its speed that the others take.
  [[nodiscard]] double min_seconds(const LaneWork& work, int64_t accumulation) const;

  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] bool has_tables() const;
  [[nodiscard]] const CostModel& costs() const { return costs_; }

 private:
  // 0 where it computes.
  [[nodiscard]] static int64_t moved_bytes(const Schedule& schedule, const Step& step);
  [[nodiscard]] double seconds_of(const Schedule& schedule, const Step& step) const;

  const Graph& graph_;
  OwnFiles own_files_;
  CostModel costs_;
  GraphFacts facts_;
};

}  // namespace spillway
