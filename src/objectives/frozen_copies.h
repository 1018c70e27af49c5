// Weights that only programs beside training read. They are declared in the training graph, so that all programs of the
// job find them in one place; no operation of training reads them.
#pragma once

#include "model/model.h"

namespace spillway::train {

// Declares the copies that a model with these options reads (ModelOptions::copies), without its operations. The weights
// of a block are assigned to the block at the same relative depth among the graph's first `among` blocks, so that they
// live where that block's frozen weights live. REQUIRES: no block is open.
[[nodiscard]] ParameterTable declare_copies(Builder& builder, const Model& model, ModelOptions options, size_t among);

}  // namespace spillway::train
