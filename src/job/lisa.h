// The layers of a job that trains some of them at a time (job/layer_draws.h).
#pragma once

#include "job/job.h"

namespace spillway::train {

// Returns the layers that the first plan trains, as many as the config says: the largest, and of layers of a size the
// last, whose gradients meet what all others have saved. Throws InputError where the job has no such layers, or trains
// them in a way that draws are not for. REQUIRES: job.config.model.lisa, and the job's optimizer.
[[nodiscard]] DrawnLayers heaviest_layers(const Job& job);

}  // namespace spillway::train
