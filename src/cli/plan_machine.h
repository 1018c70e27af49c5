// The machine that `spillway plan` plans for, where it is not this one.
#pragma once

#include "cli/config_arguments.h"
#include "plan/machine.h"

namespace spillway {

// Whether --machine or --gpu names another machine than this.
[[nodiscard]] bool is_elsewhere(const ConfigArguments& arguments);
// That machine. Throws InputError. REQUIRES: is_elsewhere.
[[nodiscard]] Machine machine_elsewhere(const ConfigArguments& arguments);

}  // namespace spillway
