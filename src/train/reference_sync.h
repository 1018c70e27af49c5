// sync_ref_model: a reference that follows the policy (TR-DPO, Gorbatovski et al., 2024; TRL's SyncRefModelCallback).
#pragma once

#include "job/training_graph.h"
#include "runtime/value_store.h"

namespace spillway::train {

// Sets each copy that the reference keeps of a trained weight to (1 - alpha) copy + alpha weight. Uses the weight's f32
// master if it has one, computes in f32 and rounds to the copy's dtype. Takes the memory of the largest copy in
// addition to the plan's. REQUIRES: no step is running.
void sync_reference(const TrainingGraph& training, double alpha, ValueStore& store);

}  // namespace spillway::train
