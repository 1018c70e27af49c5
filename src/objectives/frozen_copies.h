// Weights that only a program beside training reads: declared in the training graph, so that every program of the job
// has them in one place and none computes over them.
#pragma once

#include "model/model.h"

namespace spillway::train {

// Declares the copies that a model of these options reads (ModelOptions::copies), without its operations. A block's
// weights belong to the block that is as far along, of the graph's first `among`, so that they live where that one's
// frozen weights do. REQUIRES: no block is open.
[[nodiscard]] ParameterTable declare_copies(Builder& builder, const Model& model, ModelOptions options, size_t among);

}  // namespace spillway::train
