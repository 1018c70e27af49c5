// spillway fetch: models, adapters and data sets of the Hugging Face hub.
#pragma once

#include <span>
#include <string>

namespace spillway {

// Throws InputError and MachineError; exit status 0 otherwise.
int cmd_fetch(std::span<const std::string> args);

}  // namespace spillway
