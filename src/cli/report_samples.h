// What a run shows in its report of that which the model makes while it learns.
#pragma once

#include <cstdint>

#include "infer/clips/pixels.h"
#include "job/job.h"
#include "report/run_record.h"
#include "train/trainer.h"

namespace spillway {

// The first completion of each of a few prompts of a round: of the first, of one in the middle, and of those of the
// last of `steps` steps; nothing of other rounds.
void add_completions(RunRecord& record, const train::Job& job, const train::RoundRecord& round, int64_t steps);

// Sampled clips, each as a strip and as a moving picture.
void add_clips(RunRecord& record, const infer::Pixels& pixels, const train::ClipsRecord& clips);

}  // namespace spillway
