// PPO's value model: what says of each state of a completion what will come of it. It is trained in full, whatever the
// policy is trained as.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "config/config.h"
#include "objectives/passes.h"

namespace spillway::train {

// Throws InputError at `where` for a model of text, in `folder`, that knows fewer tokens than the policy whose ids it
// is to read: `vocab_size`.
void expect_ids_of_policy(std::string_view where, const Model& model, const std::string& folder, int64_t vocab_size);

// Reads the config.json of config.online->ppo.value_model, no weights: a classifier of one label, or a model of text,
// whose score is new. `options` are the policy's. Throws InputError for a folder that is neither, and for one that
// knows fewer tokens than the policy. REQUIRES: the config is of PPO.
[[nodiscard]] ValueModel value_model(const config::Config& config, const Model& policy, const ModelOptions& options);

}  // namespace spillway::train
