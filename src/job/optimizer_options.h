// From what a config says of an optimizer to the numbers that it takes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "ops/optimizers/optimizer.h"

namespace spillway::train {

// Defaults, then keys (adam_beta1, weight_decay, ...) that the optimizer is given, then optim_args. Throws InputError
// for an option that it does not have, with the nearest, and for a number out of bounds.
[[nodiscard]] ops::OptimizerOptions optimizer_options(const ops::OptimizerDef& optimizer,
                                                      const config::OptimizerSettings& settings);

// The keys (adam_beta1, adam_beta2, adam_epsilon) that settings give and the optimizer does not read.
[[nodiscard]] std::vector<std::string_view> unread_keys(const ops::OptimizerDef& optimizer,
                                                        const config::OptimizerSettings& settings);

// Whether optim_args ask for stochastic rounding, which is an option of weights without masters, whatever the
// optimizer. Throws InputError beside masters.
[[nodiscard]] bool rounds_stochastically(const config::OptimizerSettings& settings, bool has_masters);

// What a message and a run's settings call an option: the key, or "optim_args.<name>".
[[nodiscard]] std::string spelled_name(const ops::OptimizerOption& option);

}  // namespace spillway::train
