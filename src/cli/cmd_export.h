// spillway export MODEL [--adapter FOLDER] (--gguf FILE | --lora-gguf FILE) [--type TYPE] [--json]
#pragma once

#include <span>
#include <string>

namespace spillway {

// Takes the arguments after the command's name. Returns the exit status; throws InputError and MachineError.
int cmd_export(std::span<const std::string> args);

}  // namespace spillway
