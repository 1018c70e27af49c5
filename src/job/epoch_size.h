// How an epoch is cut into optimizer steps.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/math.h"

namespace spillway::train {

// As transformers cuts it: the last step of an epoch has the micro-batches that are left.
struct EpochSize {
  int64_t micro_batches = 0;  // of an epoch
  int64_t step_batches = 1;   // of a step

  [[nodiscard]] int64_t steps() const { return div_ceil(micro_batches, step_batches); }
  // How many epochs a run has behind it after so many steps. A short step is a smaller part of its epoch, as in
  // `epoch` of transformers' Trainer. REQUIRES: an epoch has micro-batches.
  [[nodiscard]] double epochs_after(int64_t step) const {
    const int64_t whole = step / steps();
    const int64_t begun = std::min(step % steps() * step_batches, micro_batches);
    return static_cast<double>(whole) + static_cast<double>(begun) / static_cast<double>(micro_batches);
  }
};

}  // namespace spillway::train
