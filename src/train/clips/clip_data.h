// The data of runs over clips of a video model.
#pragma once

#include <memory>

#include "train/run_data.h"

namespace spillway::train {

// Creates the data of clips. Borrows its arguments. REQUIRES: `clips` is the kind of the job.
[[nodiscard]] std::unique_ptr<RunData> make_clip_data(const Job& job, const ClipJob& clips, const ClipSets& sets,
                                                      DataListeners listeners);

}  // namespace spillway::train
