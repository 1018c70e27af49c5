#include "plan/candidates.h"

namespace spillway {
namespace {

template <typename Enum>
char letter(Enum value) {
  return static_cast<char>('a' + static_cast<int>(value));
}

std::string key_of(const Choices& choices) {
  std::string key = {letter(choices.gradients),   letter(choices.optimizer_state),
                     letter(choices.update_site), letter(choices.outer_weights),
                     letter(choices.overlap),     choices.synchronous_activations ? 's' : '-'};
  key.reserve(key.size() + choices.blocks.size() * (kSavedGroups + 4));
  for (const BlockChoice& block : choices.blocks) {
    for (const Treatment saved : block.saved) key += letter(saved);
    key += letter(block.frozen_weights);
    key += letter(block.trainable_weights);
    key += block.resident_state ? 'r' : '-';
    key += block.device_update ? 'u' : '-';
  }
  return key;
}

}  // namespace

Estimate PlanCandidates::estimate(double seconds, const LaneWork& work) const {
  Estimate result{
      .seconds = seconds, .buffers = std::ssize(newest_.schedule.buffers), .work = work, .part_bytes = newest_parts_};
  for (size_t tier = 0; tier < kTiers; ++tier) result.bytes[tier] = newest_.peaks[tier].bytes;
  return result;
}

KnownPlans::Entry& KnownPlans::entry(const std::string& key) {
  const std::lock_guard lock(mutex_);
  return entries_[key];
}

void PlanCandidates::schedule(const Choices& choices, const std::string& key) {
  newest_ = builder_.schedule(choices, &newest_parts_);
  newest_key_ = key;
}

PlanCandidates::Seen& PlanCandidates::see(const std::string& key) {
  const auto [seen, is_new] = seen_.try_emplace(key);
  if (is_new) seen->second.entry = &known_.entry(key);
  return seen->second;
}

const Estimate& PlanCandidates::scheduled(KnownPlans::Entry& entry, const Choices& choices, const std::string& key) {
  if (!entry.scheduled) {
    schedule(choices, key);
    const LaneWork work = builder_.work_of(newest_.schedule);
    entry.scheduled = estimate(builder_.min_seconds(work, accumulation_), work);
  }
  return *entry.scheduled;
}

Estimate PlanCandidates::scheduled(const Choices& choices) {
  const std::string key = key_of(choices);
  KnownPlans::Entry& entry = *see(key).entry;
  const std::lock_guard lock(entry.mutex);
  return scheduled(entry, choices, key);
}

Estimate PlanCandidates::packed(const Choices& choices, PackEffort effort) {
  const std::string key = key_of(choices);
  const auto index = static_cast<size_t>(effort);
  Seen& seen = see(key);
  packed_count_ += seen.packed[index] ? 0 : 1;
  seen.packed[index] = true;
  KnownPlans::Entry& entry = *seen.entry;
  const std::lock_guard lock(entry.mutex);
  std::optional<Estimate>& result = entry.packed[index];
  if (!result) {
    const LaneWork work = scheduled(entry, choices, key).work;
    if (key != newest_key_) schedule(choices, key);
    builder_.complete(newest_, effort);
    result = estimate(newest_.simulation.step_seconds(accumulation_), work);
  }
  return *result;
}

}  // namespace spillway
