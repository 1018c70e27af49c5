// spillway doctor [--disk FOLDER] [--json]
#pragma once

#include <span>
#include <string>

namespace spillway {

// Takes the arguments after the command's name. Returns the exit status; throws InputError and MachineError.
int cmd_doctor(std::span<const std::string> args);

}  // namespace spillway
