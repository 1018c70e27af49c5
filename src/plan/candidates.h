// What a search knows of the plans it has looked at, by their choices: so nothing is scheduled or packed twice, neither
// in one search nor in those of other budgets.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "plan/plan_builder.h"

namespace spillway {

struct Estimate {
  std::array<int64_t, kTiers> bytes{};  // arenas; before packing: no less than what they take
  double seconds = 0;                   // of an optimizer step; before packing: no more than it takes
  int64_t buffers = 0;
  LaneWork work{};
  PartBytes part_bytes{};  // live
};

class PlanCandidates {
 public:
  // The builder is borrowed.
  PlanCandidates(const PlanBuilder& builder, int64_t accumulation) : builder_(builder), accumulation_(accumulation) {}

  // By the schedule alone: bounds from below.
  [[nodiscard]] Estimate scheduled(const Choices& choices);
  // With offsets: exact.
  [[nodiscard]] Estimate packed(const Choices& choices, PackEffort effort);

  [[nodiscard]] const PlanBuilder& builder() const { return builder_; }
  [[nodiscard]] int64_t accumulation() const { return accumulation_; }
  // How many plans were made so far.
  [[nodiscard]] int64_t scheduled_count() const { return scheduled_count_; }
  [[nodiscard]] int64_t packed_count() const { return packed_count_; }

 private:
  struct Known {
    Estimate scheduled;
    std::array<std::optional<Estimate>, 2> packed;  // by effort
  };

  Known& known(const Choices& choices);
  void schedule(const Choices& choices, std::string key);
  // Of the newest, which takes so many seconds.
  [[nodiscard]] Estimate estimate(double seconds, const LaneWork& work) const;

  const PlanBuilder& builder_;
  int64_t accumulation_;
  int64_t scheduled_count_ = 0, packed_count_ = 0;
  std::unordered_map<std::string, Known> known_;  // by all choices, written out
  std::string newest_key_;
  Plan newest_;  // what was scheduled last
  PartBytes newest_parts_;
};

}  // namespace spillway
