// The machine that `spillway plan` plans for, if it is not this one.
#pragma once

#include "cli/config_arguments.h"
#include "plan/machine.h"

namespace spillway {

// Returns true if --machine or --gpu names another machine than this.
[[nodiscard]] bool is_elsewhere(const ConfigArguments& arguments);
// Returns that machine as one of `ranks` sees it. Throws InputError, also where the machine lacks a rate at which ranks
// exchange. REQUIRES: is_elsewhere().
[[nodiscard]] Machine machine_elsewhere(const ConfigArguments& arguments, int64_t ranks);

}  // namespace spillway
