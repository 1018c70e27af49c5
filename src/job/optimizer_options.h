// Resolves the optimizer settings of a config to numbers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "ops/optimizers/optimizer.h"

namespace spillway::train {

// Returns the options from defaults, then keys given in the config (adam_beta1, weight_decay, ...), then optim_args.
// Throws InputError for an option that the optimizer does not have, with the nearest name, and for a number out of
// bounds.
[[nodiscard]] ops::OptimizerOptions optimizer_options(const ops::OptimizerDef& optimizer,
                                                      const config::OptimizerSettings& settings);

// Returns the keys (adam_beta1, adam_beta2, adam_epsilon) that are given and the optimizer does not read.
[[nodiscard]] std::vector<std::string_view> unread_keys(const ops::OptimizerDef& optimizer,
                                                        const config::OptimizerSettings& settings);

// Returns true if optim_args ask for stochastic rounding, which any optimizer has for weights without masters. Throws
// InputError if there are masters.
[[nodiscard]] bool rounds_stochastically(const config::OptimizerSettings& settings, bool has_masters);

// Returns the name of an option in messages and a run's settings: the key, or "optim_args.<name>".
[[nodiscard]] std::string spelled_name(const ops::OptimizerOption& option);

}  // namespace spillway::train
