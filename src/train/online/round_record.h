// The record of a round of online training, for reports.
#pragma once

#include <cstdint>
#include <vector>

#include "job/online/completion.h"
#include "train/online/round_source.h"

namespace spillway::train {

// A round that was generated. Its parts are valid until the next one.
struct RoundRecord {
  int64_t step = 0;  // the optimizer step that was next, from 1
  const Round* round = nullptr;
  const RoundAnswer* answer = nullptr;
  double reward = 0, reward_std = 0, length = 0;  // means, and the deviation over the round
  std::vector<double> program_seconds;            // what each of PlannedJob::beside took for it
};

}  // namespace spillway::train
