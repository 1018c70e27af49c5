// Appends the update of a weight to a training graph.
#pragma once

#include "graph/builder.h"
#include "job/training_graph.h"
#include "ops/optimizers/optimizer.h"

namespace spillway::train {

// Returns the optimizer's options for a weight: its own decay, and whether it may have coded states.
[[nodiscard]] ops::OptimizerOptions optimizer_options_of(const TrainingGraph& training,
                                                         const TrainingGraphOptions& options, const TrainedWeight& t);

// Appends the update of a slice of a weight, by the optimizer of `options`, with the rate, decay and rounding that are
// the weight's. Of `operands`, those that slices share are set, and the current version of the weight. Returns the
// weight's next version. `builder` appends to the graph of `training`.
[[nodiscard]] ValueId append_update(Builder& builder, const TrainingGraph& training,
                                    const TrainingGraphOptions& options, const TrainedWeight& t,
                                    const StateSlice& slice, ops::UpdateOperands operands);

// Returns the most exact value of a slice that the graph's last operation has updated: the master, or `weight`, the
// weight's next version.
[[nodiscard]] ValueId updated_slice(const Graph& graph, const StateSlice& slice, ValueId weight);

}  // namespace spillway::train
