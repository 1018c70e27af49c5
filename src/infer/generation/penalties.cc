#include "infer/generation/penalties.h"

#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "base/index.h"
#include "base/sizes.h"

namespace spillway::infer {
namespace {

void penalise_repetition(std::span<float> logits, std::span<const int32_t> ids, double penalty) {
  const std::unordered_set<int32_t> distinct(ids.begin(), ids.end());
  const auto factor = static_cast<float>(penalty);
  for (const int32_t id : distinct) {
    float& logit = nth(logits, id);
    logit = logit < 0 ? logit * factor : logit / factor;
  }
}

void penalise_answered(std::span<float> logits, std::span<const int32_t> answer, double frequency, double presence) {
  std::unordered_map<int32_t, int64_t> counts;
  for (const int32_t id : answer) ++counts[id];
  for (const auto& [id, count] : counts)
    nth(logits, id) -= static_cast<float>(frequency * static_cast<double>(count) + presence);
}

}  // namespace

Penalties penalties_of(const TextModel& model) {
  Penalties penalties{.repetition = model.generation.repetition_penalty};
  for (const int32_t id : model.generation.suppressed)
    penalties.logit_bias.emplace_back(id, -std::numeric_limits<float>::infinity());
  return penalties;
}

void penalise(std::span<float> logits, std::span<const int32_t> ids, int64_t prompt_tokens,
              const Penalties& penalties) {
  if (penalties.repetition != 1) penalise_repetition(logits, ids, penalties.repetition);
  if (penalties.frequency != 0 || penalties.presence != 0)
    penalise_answered(logits, subspan_of(ids, prompt_tokens, std::ssize(ids) - prompt_tokens), penalties.frequency,
                      penalties.presence);
  for (const auto& [id, bias] : penalties.logit_bias) nth(logits, id) += bias;
}

}  // namespace spillway::infer
