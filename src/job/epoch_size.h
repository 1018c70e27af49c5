// The number of optimizer steps in an epoch.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/math.h"

namespace spillway::train {

// Counts steps as transformers does: the last step of an epoch has the micro-batches that are left.
struct EpochSize {
  int64_t micro_batches = 0;  // of an epoch
  int64_t step_batches = 1;   // of a step

  [[nodiscard]] int64_t steps() const { return div_ceil(micro_batches, step_batches); }
  // Returns the number of epochs done after `step` steps, as `epoch` of transformers' Trainer: a short last step counts
  // as a smaller part of its epoch. REQUIRES: micro_batches > 0.
  [[nodiscard]] double epochs_after(int64_t step) const {
    const int64_t whole = step / steps();
    const int64_t begun = std::min(step % steps() * step_batches, micro_batches);
    return static_cast<double>(whole) + static_cast<double>(begun) / static_cast<double>(micro_batches);
  }
};

}  // namespace spillway::train
