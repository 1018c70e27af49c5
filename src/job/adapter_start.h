// Adapters whose start is computed from the base's weights: PiSSA and OLoRA, which take their part out of the base, and
// LoftQ, whose base is quantised. Handles one weight at a time.
#pragma once

#include "io/safetensors.h"
#include "job/job.h"
#include "model/lora.h"
#include "model/parameters.h"
#include "runtime/value_store.h"

namespace spillway::train {

// Throws InputError if the rank is larger than a weight allows, or if the files hold quantised weights that the start
// would have to change.
void check_adapter_start(const ParameterTable& parameters, const LoraOptions& lora);

// Returns true if load_adapter_starts() fills this trained weight: a factor or a magnitude.
[[nodiscard]] bool loads_with_weight(const ParameterTable& parameters, const Parameter& trained);

// Fills the factors and magnitudes that start from the base's weights, the copies of their initial values, and the
// changed base weights, as PEFT 0.21 does (tuners/lora/layer.py). Does nothing for jobs with other starts. Throws
// InputError.
void load_adapter_starts(const Job& job, const TrainingGraph& training, const SafetensorsFolder& base,
                         ValueStore& store);

}  // namespace spillway::train
