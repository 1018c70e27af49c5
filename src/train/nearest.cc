#include "train/nearest.h"

#include <algorithm>
#include <optional>

#include "base/bytes.h"
#include "base/error.h"
#include "base/math.h"
#include "train/offload_policy.h"

namespace spillway::train {
namespace {

using Change = PlanContext::Change;
using Overrides = std::vector<ConfigOverride>;

constexpr int64_t kShortestSequence = 64;

struct Fitting {
  Change change;
  bool trains_the_same = true;  // on the same rows, in the same steps
};
using MaybeFitting = std::optional<Fitting>;

std::string text_of(const Overrides& overrides) {
  std::string text;
  for (const ConfigOverride& one : overrides)
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", one.key, one.value);
  return text;
}

std::string mebibytes(int64_t bytes) { return fmt::format("{}MiB", div_ceil(bytes, kMiB)); }

class NearestSearch {
 public:
  NearestSearch(const LoadedConfig& loaded, const Job& job, const Plan& plan, const Machine& machine)
      : loaded_(loaded), job_(job), config_(loaded.config), plan_(plan), machine_(machine) {}

  NearestChanges run() {
    using Candidate = MaybeFitting (NearestSearch::*)();
    constexpr Candidate kCandidates[] = {&NearestSearch::planned,       &NearestSearch::recomputed,
                                         &NearestSearch::more_memory,   &NearestSearch::disk_tier,
                                         &NearestSearch::state_on_disk, &NearestSearch::fewer_rows,
                                         &NearestSearch::host_tier,     &NearestSearch::shorter_sequences};
    std::vector<Fitting> found;
    for (const Candidate candidate : kCandidates) {
      if (found.size() == kMostChanges) break;
      if (MaybeFitting one = (this->*candidate)()) found.push_back(std::move(*one));
    }
    std::stable_sort(found.begin(), found.end(), [](const Fitting& a, const Fitting& b) {
      if (a.trains_the_same != b.trains_the_same) return a.trains_the_same;
      return a.change.step_seconds < b.change.step_seconds;
    });
    NearestChanges result{.searches = searches_};
    for (Fitting& one : found) result.changes.push_back(std::move(one.change));
    return result;
  }

 private:
  // As the config spells it.
  [[nodiscard]] std::string spelled(const std::string& key) const {
    const auto found = loaded_.spelled.find(key);
    return found == loaded_.spelled.end() ? key : found->second;
  }

  // Absent where the changed job does not fit, or cannot be.
  [[nodiscard]] MaybeFitting fitting(const Overrides& overrides) {
    if (searches_ == kMostSearches) return {};
    try {
      const Job changed = make_job(load_changed(loaded_.source, overrides).config, machine_);
      ++searches_;
      const PlannedJob planned = plan_job(changed, machine_);
      if (!planned.plan.fits) return {};
      Fitting result{.change = {.text = text_of(overrides)}};
      for (size_t tier = 0; tier < kBudgetedTiers; ++tier) result.change.bytes[tier] = planned.plan.peaks[tier].bytes;
      result.change.step_seconds = planned.plan.simulation.step_seconds(planned.context.accumulation);
      return result;
    } catch (const InputError&) {
      return {};  // a key beside it does not go with it
    }
  }

  // Of changes in order of what they ask, the first that fits. REQUIRES: what follows one that fits, fits.
  [[nodiscard]] MaybeFitting least_of(const std::vector<Overrides>& changes) {
    if (changes.empty()) return {};
    MaybeFitting best = fitting(changes.back());
    if (!best) return {};
    size_t too_little = 0, enough = changes.size() - 1;  // changes before `too_little` are not enough
    while (too_little < enough) {
      const size_t middle = too_little + (enough - too_little) / 2;
      if (MaybeFitting less = fitting(changes[middle])) {
        best = std::move(less);
        enough = middle;
      } else {
        too_little = middle + 1;
      }
    }
    return best;
  }

  [[nodiscard]] MaybeFitting planned() {
    if (config_.memory.plan == PlanMode::kAuto) return {};
    return fitting({{spelled("memory.plan"), "auto"}});
  }

  [[nodiscard]] MaybeFitting recomputed() {
    const Policy& policy = job_.policy;
    const bool is_open = !policy[SavedGroup::kAttention] && !policy[SavedGroup::kProduct] &&
                         !policy[SavedGroup::kElementwise];  // so the plan has tried it
    if (is_open || config_.gradient_checkpointing == Checkpointing::kOn) return {};
    return fitting({{spelled("gradient_checkpointing"), "true"}});
  }

  // Host memory is the device's where the machine has one kind only.
  [[nodiscard]] int64_t free_bytes(size_t tier) const {
    const bool is_shared = tier == static_cast<size_t>(Tier::kHost) && machine_.capacity_bytes[tier] == 0;
    return machine_.capacity_bytes[is_shared ? static_cast<size_t>(Tier::kDevice) : tier];
  }

  [[nodiscard]] MaybeFitting more_memory() {
    Overrides overrides;
    for (size_t tier = 0; tier < kBudgetedTiers; ++tier) {
      if (plan_.missing_bytes[tier] == 0) continue;
      const int64_t needed = *job_.budget.of(static_cast<Tier>(tier)) + plan_.missing_bytes[tier];
      if (align_up(needed, kMiB) > free_bytes(tier)) return {};
      overrides.push_back({budget_keys(config_.memory)[tier], mebibytes(needed)});
    }
    return fitting(overrides);
  }

  // A tier that nobody has mentioned, given to the plan: first much of it, then as much as the plan took.
  [[nodiscard]] MaybeFitting opened(Tier tier, int64_t free) {
    if (config_.memory.plan == PlanMode::kFixed || job_.budget.of(tier) || free < kMiB) return {};
    const auto at = static_cast<size_t>(tier);
    const auto with = [&](int64_t bytes) { return fitting({{budget_keys(config_.memory)[at], mebibytes(bytes)}}); };
    const MaybeFitting much = with(free / kMiB * kMiB);
    if (!much || much->change.bytes[at] == 0) return {};
    const MaybeFitting enough = with(much->change.bytes[at]);
    return enough ? enough : much;
  }

  [[nodiscard]] MaybeFitting disk_tier() {
    return opened(Tier::kDisk, usable_bytes(free_bytes(static_cast<size_t>(Tier::kDisk))));
  }

  // Beside the device's budget, where both are the same RAM.
  [[nodiscard]] MaybeFitting host_tier() {
    const int64_t ram = usable_bytes(free_bytes(static_cast<size_t>(Tier::kHost)));
    return opened(Tier::kHost, ram - job_.budget.device.value_or(ram));
  }

  // What the plan may not choose by itself.
  [[nodiscard]] MaybeFitting state_on_disk() {
    const auto home = job_.policy.optimizer_state;
    if (!home || home == Tier::kDisk || free_bytes(static_cast<size_t>(Tier::kDisk)) == 0) return {};
    return fitting({{spelled("optimizer_offload"), "disk"}});
  }

  [[nodiscard]] MaybeFitting fewer_rows() {
    std::vector<Overrides> changes;
    for (int64_t rows = config_.micro_batch_size / 2; rows >= 1; --rows) {
      if (config_.micro_batch_size % rows != 0) continue;
      Overrides& change = changes.emplace_back();
      change.push_back({spelled("micro_batch_size"), fmt::format("{}", rows)});
      if (config_.batch_size) continue;  // of which accumulation follows
      const int64_t steps = config_.gradient_accumulation_steps * (config_.micro_batch_size / rows);
      change.push_back({spelled("gradient_accumulation_steps"), fmt::format("{}", steps)});
    }
    return least_of(changes);
  }

  [[nodiscard]] MaybeFitting shorter_sequences() {
    std::vector<std::string> keys;
    if (config_.max_length) keys.push_back(spelled("max_length"));
    if (!config_.max_length || loaded_.spelled.contains("sequence_len")) keys.push_back(spelled("sequence_len"));
    std::vector<Overrides> changes;
    for (int64_t length = config_.sequence_len / 2; length >= kShortestSequence; length /= 2) {
      Overrides& change = changes.emplace_back();
      for (const std::string& key : keys) change.push_back({key, fmt::format("{}", length)});
    }
    MaybeFitting found = least_of(changes);
    if (found) found->trains_the_same = false;
    return found;
  }

  const LoadedConfig& loaded_;
  const Job& job_;
  const Config& config_;
  const Plan& plan_;
  const Machine& machine_;
  int searches_ = 0;
};

}  // namespace

NearestChanges nearest_changes(const LoadedConfig& loaded, const Job& job, const Plan& plan, const Machine& machine) {
  return NearestSearch(loaded, job, plan, machine).run();
}

}  // namespace spillway::train
