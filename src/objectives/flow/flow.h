// Flow matching (Lipman et al., 2022; Liu et al., rectified flow, 2022) as FastVideo and diffusers train video
// transformers: the model reads (1 - sigma) z + sigma noise and predicts noise - z.
#pragma once

#include "objectives/objective.h"

namespace spillway::train {

// Returns the objective. The loss of a clip is the mean squared error over its latents, and that of a step the mean
// over its clips. With `preconditions` the error is that of the clean latents x - sigma * prediction, which is sigma^2
// times the other. With `shows_prediction` the observed values of an evaluation include the prediction, f32, after the
// loss of each clip.
[[nodiscard]] ObjectivePtr flow_objective(bool preconditions, bool shows_prediction);

}  // namespace spillway::train
