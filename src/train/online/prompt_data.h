// The data of runs of online reinforcement learning.
#pragma once

#include <memory>

#include "train/run_data.h"

namespace spillway::train {

// Creates the data of prompts, from which the run generates its completions. Borrows the job. REQUIRES: the job is
// online.
[[nodiscard]] std::unique_ptr<RunData> make_prompt_data(const Job& job, DataListeners listeners,
                                                        MakeRounds make_rounds);

}  // namespace spillway::train
