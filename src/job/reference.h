// Which model the reference of an objective is: the one in training as it is before the first step, or another one.
#pragma once

#include <filesystem>

#include "config/config.h"
#include "objectives/passes.h"

namespace spillway::train {

// `options` are those of the model in training. Without ref_model the reference is the policy at step 0: of a fresh
// adapter the base without it, and of all other training frozen copies of what is trained. Reads the config.json of
// ref_model. Throws InputError for one of another vocabulary than the model's, and for one whose weights are not of the
// model's shapes where they are to follow it. REQUIRES: config.preference.
[[nodiscard]] ReferenceOptions reference_options(const config::Config& config, const Model& model,
                                                 const ModelOptions& options);

// The options of the policy at step 0 alone, of any job.
[[nodiscard]] ModelOptions policy_at_first(const config::Config& config, const Model& model, ModelOptions options);

// The model folder that a reference without an adapter is read from.
[[nodiscard]] std::filesystem::path reference_folder(const config::Config& config);

}  // namespace spillway::train
