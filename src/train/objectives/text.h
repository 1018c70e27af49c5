// Text, as supervised fine-tuning and pretraining have it: the cross-entropy of each token that has a label, and a mean
// over all of the optimizer step.
#pragma once

#include "train/objectives/objective.h"

namespace spillway::train {

extern const Objective kText;

}  // namespace spillway::train
