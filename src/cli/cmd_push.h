// spillway push: models, adapters and GGUF files to the Hugging Face hub.
#pragma once

#include <span>
#include <string>

namespace spillway {

// Throws InputError and MachineError; exit status 0 otherwise.
int cmd_push(std::span<const std::string> args);

}  // namespace spillway
