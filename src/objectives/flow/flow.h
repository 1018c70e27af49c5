// Flow matching (Lipman et al., 2022; Liu et al., rectified flow, 2022) as FastVideo and diffusers train video
// transformers: the model predicts noise - z where it sees (1 - sigma) z + sigma noise.
#pragma once

#include "objectives/objective.h"

namespace spillway::train {

// The loss of a clip is the mean of squared differences over its latents, and a step's the mean over its clips. With
// `preconditions` it is that of the clean latents x - sigma * prediction: sigma^2 times the other. An evaluation
// `shows_prediction`, f32, behind the loss of each clip.
[[nodiscard]] ObjectivePtr flow_objective(bool preconditions, bool shows_prediction);

}  // namespace spillway::train
