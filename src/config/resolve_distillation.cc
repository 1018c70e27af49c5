// Resolves the keys of learning from a teacher.
#include <algorithm>

#include "config/keys.h"
#include "config/resolve.h"

namespace spillway::config {

std::optional<DistillationSettings> resolve_distillation(const Resolution& r, TextLoss loss) {
  constexpr const char* kKey = "kd_trainer";
  const Spelled& keys = r.keys;
  if (!keys.kd_trainer) {
    for (const auto& [key, value] : compared_values("Distillation", 0, keys)) r.ignore(key, "kd_trainer is off");
    return {};
  }
  if (has_preferences(keys) || is_online(keys))
    throw input_error(r.where(kKey), "expected rows of text for a teacher, got {} beside it; remove one of them",
                      keys.rl == Rl::kNone ? "a reward model" : "rl");
  if (loss != TextLoss::kCrossEntropy)
    throw input_error(r.where(kKey), "expected cross-entropy beside the teacher's loss, got {}; remove one of them",
                      loss == TextLoss::kWeightedByEntropy ? "use_eaft: true" : "dft");
  if (keys.teacher_model_name_or_path.empty())
    throw input_error(r.where(kKey),
                      "expected the teacher's folder, got none; write it as teacher_model_name_or_path "
                      "(log-probabilities in the rows are not yet read)");
  if (keys.label_smoothing_factor > 0) r.ignore("label_smoothing_factor", "it smooths the loss without a teacher");
  return keys;
}

}  // namespace spillway::config
