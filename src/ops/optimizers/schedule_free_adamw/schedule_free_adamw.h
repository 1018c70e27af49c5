// Schedule-Free AdamW (Defazio et al., The Road Less Scheduled, 2024) with the formula of facebook's schedulefree:
// steps go along z, their weighted mean is x, and gradients are taken at y between the two, which is the trained
// weight.
#pragma once

#include "ops/optimizers/optimizer.h"

namespace spillway::ops {

// Keeps exp_avg_sq, and z - y, which begins as zeros since z itself would begin as the weight; takes the number of the
// step and a state of the step. The decay is part of the step and taken at y. The evaluated weight is x. The caller
// provides a rate that rises over the first steps, and a schedule.
extern const OptimizerDef kScheduleFreeAdamw;

}  // namespace spillway::ops
