// `spillway train CONFIG.yml`
#pragma once

#include <exception>
#include <optional>
#include <span>
#include <string>

#include "cli/config_arguments.h"
#include "dist/peers.h"

namespace spillway {

int cmd_train(std::span<const std::string> args);

// Reads the arguments of `train`, as parse_config_arguments().
[[nodiscard]] std::optional<ConfigArguments> training_arguments(std::span<const std::string> args);

// Trains as one of the ranks; `peers` are null for a job of one. Where `fault` is an exception, of what this rank did
// before it joined the others, no rank trains. Returns the exit status, which is that of all ranks, also on other ranks
// than 0 for an error of all of them: rank 0 says it. Throws on rank 0, and on another rank for an
// error of its own, whose message names the rank.
[[nodiscard]] int train_as_rank(const ConfigArguments& arguments, Peers* peers,
                                const std::exception_ptr& fault = nullptr);

}  // namespace spillway
