// `spillway rewards`: tries a config's reward functions on existing completions.
#pragma once

#include <span>
#include <string>

namespace spillway {

// Takes the arguments after the command's name; returns the exit status. Throws InputError and MachineError.
int cmd_rewards(std::span<const std::string> args);

}  // namespace spillway
