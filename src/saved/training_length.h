// The length of a run in rows, tokens and steps.
#pragma once

#include <cstdint>

#include "job/epoch_size.h"

namespace spillway::train {

// The length of a run. A stream has no epochs: all of its steps count as one.
struct TrainingLength {
  int64_t lines = 0, tokens = 0;  // of an epoch; a line is a row, or several that are packed; 0 for a stream
  EpochSize epoch{};
  int64_t total_steps = 0;
};

}  // namespace spillway::train
