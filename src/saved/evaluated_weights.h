// The weights that are evaluated, sampled and saved, where the optimizer says that those are not the ones in training
// (ops::EvaluatedWeights). All others are evaluated as they are, and nothing here does anything for them.
#pragma once

#include "job/training_graph.h"
#include "runtime/value_store.h"

namespace spillway::train {

// Calls `use` with what is to be saved of a trained weight, whole and in order: computed in f32 from its f32 master, or
// from itself. REQUIRES: the optimizer evaluates other weights than it trains, and the trained ones are in place.
// Takes the memory of one state slice beside the plan's.
void read_evaluated(const TrainingGraph& training, const TrainedWeight& t, ValueStore& store,
                    const ValueStore::Visitor& use);

// Puts what is evaluated in the place of every trained weight, so that all programs of the job read it, rounded to the
// weight's dtype; masters and states stay. The weights in training are kept aside where no master has them.
void put_evaluated_weights(const TrainingGraph& training, ValueStore& store);
// Puts the weights in training back, to the last bit. REQUIRES: put_evaluated_weights() came before.
void put_trained_weights(const TrainingGraph& training, ValueStore& store);

}  // namespace spillway::train
