// samples.jsonl: a JSON line for each sample that was trained on.
#pragma once

#include <string>

#include "train/clips/clip_feed.h"

namespace spillway::train {

// Returns the line of a sample, with a line break.
[[nodiscard]] std::string sample_line(const SampleSeen& sample);

}  // namespace spillway::train
