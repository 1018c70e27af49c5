// Samples of the model during training, for the run's report.
#pragma once

#include <cstdint>

#include "infer/clips/pixels.h"
#include "job/job.h"
#include "report/run_record.h"
#include "train/trainer.h"

namespace spillway {

// Adds the first completion of a few prompts of a round; does so for the first round, one in the middle, and those of
// the last of `steps` steps, and does nothing for other rounds.
void add_completions(RunRecord& record, const train::Job& job, const train::RoundRecord& round, int64_t steps);

// Adds sampled clips, each as a strip of frames and as an animation.
void add_clips(RunRecord& record, const infer::Pixels& pixels, const train::ClipsRecord& clips);

}  // namespace spillway
