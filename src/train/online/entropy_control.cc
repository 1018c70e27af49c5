#include "train/online/entropy_control.h"

#include <algorithm>

namespace spillway::train {

double EntropyControl::applied() const {
  if (!adaptive_) return coef_;
  return last_ && *last_ <= adaptive_->target ? coef_ : 0;
}

void EntropyControl::add(const ActingEntropy& micro_batch) {
  step_.sum += micro_batch.sum;
  step_.tokens += micro_batch.tokens;
}

void EntropyControl::end_step() {
  if (!adaptive_) return;
  last_ = step_.sum / std::max(1.0, step_.tokens);
  coef_ = *last_ <= adaptive_->target ? std::min(coef_ + adaptive_->delta, adaptive_->most)
                                      : std::max(coef_ - adaptive_->delta, adaptive_->least);
  step_ = {};
}

nlohmann::ordered_json EntropyControl::state() const {
  return {{"coef", coef_}, {"last", last_ ? nlohmann::ordered_json(*last_) : nlohmann::ordered_json()}};
}

void EntropyControl::restore(const nlohmann::ordered_json& state) {
  if (!adaptive_) return;
  coef_ = state.at("coef");
  last_.reset();
  if (!state.at("last").is_null()) last_ = state.at("last").get<double>();
}

}  // namespace spillway::train
