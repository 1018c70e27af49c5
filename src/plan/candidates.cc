#include "plan/candidates.h"

#include <utility>

#include "base/index.h"

namespace spillway {
namespace {

template <typename Enum>
char letter(Enum value) {
  return static_cast<char>('a' + static_cast<int>(value));
}

std::string key_of(const Choices& choices) {
  std::string key = {letter(choices.overlap), choices.synchronous_activations ? 's' : '-'};
  key.reserve(key.size() + choices.groups.size() + choices.saved.size() * kSavedGroups);
  for (const Residency& group : choices.groups)
    key += static_cast<char>('a' + static_cast<int>(group.home) * kTiers + static_cast<int>(group.site));
  for (const Saved& saved : choices.saved)
    for (const ActivationPolicy activation_policy : saved) key += letter(activation_policy);
  return key;
}

}  // namespace

KnownPlans::Entry& KnownPlans::entry(const std::string& key) {
  const std::lock_guard lock(mutex_);
  return entries_[key];
}

void PlanCandidates::schedule(const Choices& choices, const std::string& key) {
  newest_ = builder_.schedule(choices, &newest_parts_);
  newest_key_ = key;
  newest_effort_.reset();
}

void PlanCandidates::place(const Choices& choices, const std::string& key, PackEffort effort) {
  if (newest_key_ != key) schedule(choices, key);
  if (newest_effort_ != effort) builder_.place(newest_, effort);
  newest_effort_ = effort;
}

std::array<int64_t, kTiers> PlanCandidates::newest_bytes() const {
  std::array<int64_t, kTiers> bytes{};
  for (const Tier tier : kEachTier) nth(bytes, tier) = nth(newest_.peaks, tier).bytes;
  return bytes;
}

PlanCandidates::Seen& PlanCandidates::see(const std::string& key) {
  const auto [seen, is_new] = seen_.try_emplace(key);
  if (is_new) seen->second.entry = &known_.entry(key);
  return seen->second;
}

const Estimate& PlanCandidates::scheduled(KnownPlans::Entry& entry, const Choices& choices, const std::string& key) {
  if (!entry.scheduled) {
    schedule(choices, key);
    Estimate estimate{.bytes = newest_bytes(),
                      .buffers = std::ssize(newest_.schedule.buffers),
                      .work = builder_.work_of(newest_.schedule),
                      .part_bytes = newest_parts_};
    estimate.seconds = builder_.min_seconds(estimate.work, accumulation_);
    entry.scheduled = std::move(estimate);
  }
  return *entry.scheduled;
}

Estimate PlanCandidates::scheduled(const Choices& choices) {
  const std::string key = key_of(choices);
  KnownPlans::Entry& entry = *see(key).entry;
  const std::lock_guard lock(entry.mutex);
  return scheduled(entry, choices, key);
}

double PlanCandidates::seconds_unpacked(const Choices& choices) {
  const std::string key = key_of(choices);
  KnownPlans::Entry& entry = *see(key).entry;
  const std::lock_guard lock(entry.mutex);
  if (!entry.seconds_unpacked) {
    if (newest_key_ != key || newest_effort_) schedule(choices, key);
    builder_.predict(newest_);
    entry.seconds_unpacked = newest_.simulation.step_seconds(accumulation_);
  }
  return *entry.seconds_unpacked;
}

Estimate PlanCandidates::packed(const Choices& choices, PackEffort effort) {
  return packed(choices, key_of(choices), effort);
}

Estimate PlanCandidates::packed(const Choices& choices, const std::string& key, PackEffort effort) {
  Seen& seen = see(key);
  packed_count_ += nth(seen.packed, effort) ? 0 : 1;
  nth(seen.packed, effort) = true;
  KnownPlans::Entry& entry = *seen.entry;
  const std::lock_guard lock(entry.mutex);
  std::optional<Estimate>& result = nth(entry.packed, effort);
  if (!result) {
    result = scheduled(entry, choices, key);
    place(choices, key, effort);
    result->bytes = newest_bytes();
  }
  return *result;
}

Estimate PlanCandidates::predicted(const Choices& choices, PackEffort effort) {
  const std::string key = key_of(choices);
  Estimate estimate = packed(choices, key, effort);
  KnownPlans::Entry& entry = *see(key).entry;
  const std::lock_guard lock(entry.mutex);
  std::optional<Estimate>& result = nth(entry.predicted, effort);
  if (!result) {
    place(choices, key, effort);
    builder_.predict(newest_);
    estimate.micro_step_seconds = newest_.simulation.micro_step_seconds;
    estimate.update_seconds = newest_.simulation.update_seconds;
    estimate.seconds = newest_.simulation.step_seconds(accumulation_);
    result = std::move(estimate);
  }
  return *result;
}

}  // namespace spillway
