// The plans that searches look at, and the results for each: no plan is scheduled or packed twice, neither within one
// search nor by the searches for other budgets that run beside it.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/index.h"
#include "plan/plan_builder.h"

namespace spillway {

struct Estimate {
  std::array<int64_t, kTiers> bytes{};  // arenas; before packing: no less than what they take
  double seconds = 0;                   // of an optimizer step; before it is predicted: no more than it takes
  double micro_step_seconds = 0, update_seconds = 0;  // its parts, once it is predicted
  int64_t buffers = 0;
  LaneWork work{};
  PartBytes part_bytes{};  // live

  [[nodiscard]] int64_t device_bytes() const { return nth(bytes, Tier::kDevice); }
  // Returns the bytes of all tiers but the device.
  [[nodiscard]] int64_t bytes_away() const {
    return std::accumulate(bytes.begin(), bytes.end(), int64_t{0}) - device_bytes();
  }
};

// The results for plans that are known so far, shared by all searches of one graph. Safe from any thread; a thread that
// needs a result which another is computing waits on the entry's mutex.
class KnownPlans {
 public:
  struct Entry {
    std::mutex mutex;  // guards the members below
    std::optional<Estimate> scheduled;
    std::optional<double> seconds_unpacked;
    std::array<std::optional<Estimate>, 2> packed, predicted;  // by effort
  };

  // Returns the entry for `key`, which is all choices as text. Its address stays valid.
  [[nodiscard]] Entry& entry(const std::string& key);

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, Entry> entries_;
};

// The plans that one search looks at. Not safe for use by several threads at a time.
class PlanCandidates {
 public:
  // Borrows the builder and the known plans.
  PlanCandidates(const PlanBuilder& builder, int64_t accumulation, KnownPlans& known)
      : builder_(builder), accumulation_(accumulation), known_(known) {}

  // Returns the estimate by the schedule alone: lower bounds.
  [[nodiscard]] Estimate scheduled(const Choices& choices);
  // Returns the seconds of the schedule if no memory is used twice: nearly always a lower bound (PlanBuilder::predict).
  [[nodiscard]] double seconds_unpacked(const Choices& choices);
  // Returns the estimate with offsets: its bytes are exact.
  [[nodiscard]] Estimate packed(const Choices& choices, PackEffort effort);
  // Returns the estimate with offsets and predicted seconds.
  [[nodiscard]] Estimate predicted(const Choices& choices, PackEffort effort);

  [[nodiscard]] const PlanBuilder& builder() const { return builder_; }
  [[nodiscard]] int64_t accumulation() const { return accumulation_; }
  // Returns how many different plans this search has asked for so far, whichever search made them: so the plans that it
  // looks at do not depend on the searches beside it.
  [[nodiscard]] int64_t scheduled_count() const { return std::ssize(seen_); }
  [[nodiscard]] int64_t packed_count() const { return packed_count_; }

 private:
  struct Seen {
    KnownPlans::Entry* entry = nullptr;
    std::array<bool, 2> packed{};  // by effort
  };

  Seen& see(const std::string& key);
  // REQUIRES: the entry's lock is held.
  const Estimate& scheduled(KnownPlans::Entry& entry, const Choices& choices, const std::string& key);
  void schedule(const Choices& choices, const std::string& key);
  [[nodiscard]] Estimate packed(const Choices& choices, const std::string& key, PackEffort effort);
  // Makes the plan the newest, with offsets.
  void place(const Choices& choices, const std::string& key, PackEffort effort);
  [[nodiscard]] std::array<int64_t, kTiers> newest_bytes() const;

  const PlanBuilder& builder_;
  int64_t accumulation_;
  KnownPlans& known_;
  int64_t packed_count_ = 0;
  std::unordered_map<std::string, Seen> seen_;
  std::string newest_key_;
  Plan newest_;                              // the last plan that was scheduled
  std::optional<PackEffort> newest_effort_;  // of its offsets, if it has any
  PartBytes newest_parts_;
};

}  // namespace spillway
