// spillway import FILE.gguf --out FOLDER [--dtype bf16|f32] [--json]
#pragma once

#include <span>
#include <string>

namespace spillway {

// Takes the arguments after the command's name. Returns the exit status; throws InputError and MachineError.
int cmd_import(std::span<const std::string> args);

}  // namespace spillway
