// Adapters that start as a part of their weights: PiSSA and OLoRA, whose base is then without it, and LoftQ, whose base
// is quantised. One weight at a time.
#pragma once

#include "io/safetensors.h"
#include "job/job.h"
#include "model/lora.h"
#include "model/parameters.h"
#include "runtime/value_store.h"

namespace spillway::train {

// Throws InputError for a rank that a weight does not have, and for files that hold codes where weights would change.
void check_adapter_start(const ParameterTable& parameters, const LoraOptions& lora);

// Whether load_adapter_starts fills this trained weight: a factor or a magnitude.
[[nodiscard]] bool loads_with_weight(const ParameterTable& parameters, const Parameter& trained);

// Fills the weights that load with their adapter, its factors and magnitudes, what these started as, and copies of
// them. As PEFT 0.21 starts them (tuners/lora/layer.py); there are none in jobs with other starts. Throws InputError.
void load_adapter_starts(const Job& job, const TrainingGraph& training, const SafetensorsFolder& base,
                         ValueStore& store);

}  // namespace spillway::train
