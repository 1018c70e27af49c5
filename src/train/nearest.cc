#include "train/nearest.h"

#include <optional>

#include "base/bytes.h"
#include "base/error.h"
#include "base/math.h"

namespace spillway::train {
namespace {

using Change = PlanContext::Change;
using MaybeChange = std::optional<Change>;

constexpr size_t kMostChanges = 3;
constexpr int64_t kShortestSequence = 64;

class NearestSearch {
 public:
  NearestSearch(const Job& job, const Plan& plan, const Machine& machine)
      : job_(job), config_(job.config), plan_(plan), machine_(machine) {}

  std::vector<Change> run() const {
    using Candidate = MaybeChange (NearestSearch::*)() const;
    constexpr Candidate kCandidates[] = {&NearestSearch::planned,       &NearestSearch::recomputed,
                                         &NearestSearch::state_on_disk, &NearestSearch::more_memory,
                                         &NearestSearch::fewer_rows,    &NearestSearch::shorter_sequences};
    std::vector<Change> changes;
    for (const Candidate candidate : kCandidates) {
      if (changes.size() == kMostChanges) break;
      if (MaybeChange change = (this->*candidate)()) changes.push_back(std::move(*change));
    }
    return changes;
  }

 private:
  // Absent where the changed job does not fit, or cannot be.
  [[nodiscard]] MaybeChange fitting(std::string text, const Config& changed) const {
    try {
      const PlannedJob planned = plan_job(make_job(changed, machine_), machine_);
      if (!planned.plan.fits) return {};
      Change change{.text = std::move(text)};
      for (size_t tier = 0; tier < kBudgetedTiers; ++tier) change.bytes[tier] = planned.plan.peaks[tier].bytes;
      return change;
    } catch (const InputError&) {
      return {};  // budgets that are more than the machine has, for one
    }
  }

  [[nodiscard]] MaybeChange planned() const {
    if (config_.memory.plan == PlanMode::kAuto) return {};
    Config changed = config_;
    changed.memory.plan = PlanMode::kAuto;
    return fitting("memory.plan: auto", changed);
  }

  [[nodiscard]] MaybeChange recomputed() const {
    if (config_.gradient_checkpointing == Checkpointing::kOn) return {};
    Config changed = config_;
    changed.gradient_checkpointing = Checkpointing::kOn;
    return fitting("gradient_checkpointing: true", changed);
  }

  [[nodiscard]] MaybeChange state_on_disk() const {
    if (job_.budget.disk.value_or(0) == 0 || job_.policy.optimizer_state == Tier::kDisk) return {};
    Config changed = config_;
    changed.optimizer_offload = Offload::kDisk;
    return fitting("optimizer_offload: disk", changed);
  }

  // Host memory is the device's where the machine has one kind only.
  [[nodiscard]] int64_t free_bytes(size_t tier) const {
    const bool is_shared = tier == static_cast<size_t>(Tier::kHost) && machine_.capacity_bytes[tier] == 0;
    return machine_.capacity_bytes[is_shared ? static_cast<size_t>(Tier::kDevice) : tier];
  }

  [[nodiscard]] MaybeChange more_memory() const {
    std::string MemoryConfig::*const kKeys[kBudgetedTiers] = {&MemoryConfig::device, &MemoryConfig::host,
                                                              &MemoryConfig::disk};
    Config changed = config_;
    std::string text;
    for (size_t tier = 0; tier < kBudgetedTiers; ++tier) {
      if (plan_.missing_bytes[tier] == 0) continue;
      const int64_t mebibytes = div_ceil(*job_.budget.of(static_cast<Tier>(tier)) + plan_.missing_bytes[tier], kMiB);
      if (mebibytes * kMiB > free_bytes(tier)) return {};
      const std::string size = fmt::format("{}MiB", mebibytes);
      changed.memory.*kKeys[tier] = size;
      text += fmt::format("{}memory.{}: {}", text.empty() ? "" : ", ", name_of(static_cast<Tier>(tier)), size);
    }
    return fitting(std::move(text), changed);
  }

  [[nodiscard]] MaybeChange fewer_rows() const {
    for (int64_t rows = config_.micro_batch_size / 2; rows >= 1; --rows) {
      if (config_.micro_batch_size % rows != 0) continue;
      Config changed = config_;
      changed.micro_batch_size = rows;
      changed.gradient_accumulation_steps *= config_.micro_batch_size / rows;
      std::string text = fmt::format("micro_batch_size: {}, gradient_accumulation_steps: {}", rows,
                                     changed.gradient_accumulation_steps);
      if (MaybeChange change = fitting(std::move(text), changed)) return change;
    }
    return {};
  }

  [[nodiscard]] MaybeChange shorter_sequences() const {
    for (int64_t length = config_.sequence_len / 2; length >= kShortestSequence; length /= 2) {
      Config changed = config_;
      changed.sequence_len = length;
      if (MaybeChange change = fitting(fmt::format("sequence_len: {}", length), changed)) return change;
    }
    return {};
  }

  const Job& job_;
  const Config& config_;
  const Plan& plan_;
  const Machine& machine_;
};

}  // namespace

std::vector<Change> nearest_changes(const Job& job, const Plan& plan, const Machine& machine) {
  return NearestSearch(job, plan, machine).run();
}

}  // namespace spillway::train
