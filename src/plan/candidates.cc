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
  key.reserve(key.size() + choices.blocks.size() * (kSavedGroups + 3));
  for (const BlockChoice& block : choices.blocks) {
    for (const Treatment saved : block.saved) key += letter(saved);
    key += letter(block.frozen_weights);
    key += letter(block.trainable_weights);
    key += block.resident_state ? 'r' : '-';
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

void PlanCandidates::schedule(const Choices& choices, std::string key) {
  newest_ = builder_.schedule(choices, &newest_parts_);
  newest_key_ = std::move(key);
  ++scheduled_count_;
}

PlanCandidates::Known& PlanCandidates::known(const Choices& choices) {
  std::string key = key_of(choices);
  const auto [entry, is_new] = known_.try_emplace(key);
  if (is_new) {
    schedule(choices, std::move(key));
    const LaneWork work = builder_.work_of(newest_.schedule);
    entry->second.scheduled = estimate(builder_.min_seconds(work, accumulation_), work);
  }
  return entry->second;
}

Estimate PlanCandidates::scheduled(const Choices& choices) { return known(choices).scheduled; }

Estimate PlanCandidates::packed(const Choices& choices, PackEffort effort) {
  Known& known_plan = known(choices);
  std::optional<Estimate>& result = known_plan.packed[static_cast<size_t>(effort)];
  if (result) return *result;
  if (std::string key = key_of(choices); key != newest_key_) schedule(choices, std::move(key));
  builder_.complete(newest_, effort);
  ++packed_count_;
  result = estimate(newest_.simulation.step_seconds(accumulation_), known_plan.scheduled.work);
  return *result;
}

}  // namespace spillway
