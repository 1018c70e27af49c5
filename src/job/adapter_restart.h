// Restarts of an adapter (ReLoRA, Lialin et al., 2023): its product has become a part of the base, and it begins anew.
// Who merges it is saved/merged_base.h.
#pragma once

#include <cstdint>

#include "io/safetensors.h"
#include "job/job.h"
#include "job/training_graph.h"
#include "runtime/value_store.h"

namespace spillway::train {

// Throws InputError where the job's adapter cannot restart: beside another optimizer than AdamW, in a diffusers model,
// or on weights that a merged model has under other names or in another form than the base's files.
// `parameters` are those of the job.
void check_restarts(const Job& job, const ParameterTable& parameters);

// Gives the adapted weights the values in `merged`, encoded as the job has them; A fresh uniform numbers, which depend
// on seed, step and place alone; B zeros; and prunes the optimizer's moments. What the optimizer knows of the number of
// steps stays. `merged` has the tensors of the base. REQUIRES: check_restarts(); no step is running.
void restart_adapter(const Job& job, const TrainingGraph& training, const SafetensorsFolder& merged, int64_t step,
                     ValueStore& store);

}  // namespace spillway::train
