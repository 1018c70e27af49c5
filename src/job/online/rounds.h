// The schedule of rounds: which prompts each answers, and which steps train on it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/math.h"
#include "config/config.h"
#include "job/epoch_size.h"

namespace spillway::train {

// Prompts in the order of TRL's RepeatSampler: each epoch shuffles the prompts and cuts them into rounds; an incomplete
// last round is left out. A round is trained on several times, in the same micro-batches or, for PPO, reshuffled each
// time. A pure function of the config and the number of prompts.
class RoundSchedule {
 public:
  // Throws InputError if there are fewer prompts than a round has.
  RoundSchedule(const config::Config& config, int64_t prompts);

  [[nodiscard]] int64_t rounds_per_epoch() const { return rounds_per_epoch_; }
  // Returns the number of rounds that so many epochs of prompts fill, the last one rounded up: what an epoch leaves out
  // comes in more of them, as TRL counts PPO's episodes.
  [[nodiscard]] int64_t rounds_for(double epochs) const {
    return div_ceil(static_cast<int64_t>(epochs * static_cast<double>(prompts_)), round_size_ / group_);
  }
  // The number of micro-batches that train on a round, and of different ones among them.
  [[nodiscard]] int64_t micro_batches_per_round() const { return slices_ * iterations_; }
  [[nodiscard]] int64_t slices() const { return slices_; }
  [[nodiscard]] int64_t micro_batches_per_epoch() const { return rounds_per_epoch_ * micro_batches_per_round(); }
  [[nodiscard]] EpochSize epoch() const { return {.lines = micro_batches_per_epoch(), .step_batches = accumulation_}; }

  // The micro-batches of optimizer step `step`, numbered over the whole run. The last step of an epoch has those that
  // are left.
  struct Range {
    int64_t first = 0, last = 0;
  };
  [[nodiscard]] Range micro_batches_of(int64_t step) const;
  [[nodiscard]] int64_t round_of(int64_t micro_batch) const { return micro_batch / micro_batches_per_round(); }
  [[nodiscard]] int64_t slice_of(int64_t micro_batch) const { return micro_batch % slices_; }

  [[nodiscard]] int64_t epoch_of(int64_t round) const { return round / rounds_per_epoch_; }
  // Returns the prompt of each completion of a round, in the order of generation.
  [[nodiscard]] std::vector<int64_t> prompts_of(int64_t round) const;
  // Returns the order in which the completions of a round are trained on, slice after slice. Pairs stay together.
  [[nodiscard]] std::vector<int64_t> training_order(int64_t round) const;

 private:
  int64_t prompts_, group_, round_size_;
  int64_t shuffles_;  // of the completions of a round
  int64_t slices_, iterations_, accumulation_, rounds_per_epoch_;
  uint64_t seed_;
  bool is_paired_, is_shuffled_;
};

}  // namespace spillway::train
