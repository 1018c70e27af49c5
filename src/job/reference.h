// The reference model of an objective: the model in training as it was before the first step, or another one.
#pragma once

#include <filesystem>

#include "config/config.h"
#include "objectives/passes.h"

namespace spillway::train {

// Returns the reference of preference training. `options` are those of the model in training. Without ref_model it is
// the policy at step 0: for a fresh adapter the base without it, for all other training frozen copies of the trained
// weights. Reads the config.json of ref_model. Throws InputError if it has another vocabulary than the model, and if it
// is to follow the model but has weights of other shapes. REQUIRES: config.preference.
[[nodiscard]] ReferenceOptions reference_options(const config::Config& config, const Model& model,
                                                 const ModelOptions& options);

// Returns the teacher of config.distillation as a reference. Throws InputError if its vocabulary is another.
[[nodiscard]] ReferenceOptions teacher_options(const config::Config& config, const Model& model,
                                               const ModelOptions& options);

// Returns the options of the policy at step 0, for any job.
[[nodiscard]] ModelOptions policy_at_first(const config::Config& config, const Model& model, ModelOptions options);

// Returns the model folder of a reference without an adapter.
[[nodiscard]] std::filesystem::path reference_folder(const config::Config& config);

}  // namespace spillway::train
