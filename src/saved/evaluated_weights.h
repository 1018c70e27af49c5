// The weights that are evaluated, sampled and saved, for optimizers that evaluate other weights than they train
// (ops::EvaluatedWeights). For all other optimizers these functions do nothing.
#pragma once

#include "job/training_graph.h"
#include "runtime/value_store.h"

namespace spillway::train {

// Calls `use` with the values of a trained weight that are to be saved, whole and in order. They are computed in f32
// from the weight's f32 master, or from the weight itself. Takes the memory of one state slice in addition to the
// plan's. REQUIRES: the optimizer evaluates other weights than it trains, and the trained ones are in place.
void read_evaluated(const TrainingGraph& training, const TrainedWeight& t, ValueStore& store,
                    const ValueStore::Visitor& use);

// Replaces every trained weight with its evaluated values, rounded to the weight's dtype, so that all programs of the
// job read those. Masters and states stay. Weights without a master are kept aside.
void put_evaluated_weights(const TrainingGraph& training, ValueStore& store);
// Restores the trained weights bit for bit. REQUIRES: put_evaluated_weights() was called before.
void put_trained_weights(const TrainingGraph& training, ValueStore& store);

}  // namespace spillway::train
