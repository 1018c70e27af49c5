// PPO's value model, which estimates the return of each state of a completion. It is trained in full, however the
// policy is trained.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "config/config.h"
#include "objectives/passes.h"

namespace spillway::train {

// Throws InputError at `where` if the text model in `folder` has fewer tokens than `vocab_size`, the vocabulary of the
// policy whose ids it reads.
void expect_ids_of_policy(std::string_view where, const Model& model, const std::string& folder, int64_t vocab_size);

// Reads the config.json of config.online->ppo.value_model, no weights. The model is a classifier with one label, or a
// text model, which gets a new score head. `options` are the policy's. Throws InputError for any other folder, and for
// a model with fewer tokens than the policy. REQUIRES: the config is of PPO.
[[nodiscard]] ValueModel value_model(const config::Config& config, const Model& policy, const ModelOptions& options);

}  // namespace spillway::train
