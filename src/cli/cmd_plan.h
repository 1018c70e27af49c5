// spillway plan CONFIG.yml [--KEY VALUE ...] [--check-config] [--json]
#pragma once

#include <span>
#include <string>

namespace spillway {

// Takes the arguments after the command's name. Returns the exit status; throws InputError and MachineError.
int cmd_plan(std::span<const std::string> args);

}  // namespace spillway
