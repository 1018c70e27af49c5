// sync_ref_model: a reference that follows the policy (TR-DPO, Gorbatovski et al., 2024; TRL's SyncRefModelCallback).
#pragma once

#include "job/training_graph.h"
#include "runtime/value_store.h"

namespace spillway::train {

// Each copy that the reference keeps of a trained weight becomes (1 - alpha) copy + alpha weight, of the weight's f32
// master where it has one, computed in f32 and rounded to the copy's dtype. Between steps. Takes the memory of the
// largest copy beside the plan's.
void sync_reference(const TrainingGraph& training, double alpha, ValueStore& store);

}  // namespace spillway::train
