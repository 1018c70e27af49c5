// spillway tokenize MODEL (--text TEXT | --file PATH | --messages FILE.json | --lines FILE.jsonl --json-lines)
//                         [--json] [--no-special] [--skip-special]
#pragma once

#include <span>
#include <string>

namespace spillway {

// Takes the arguments after the command's name. Returns the exit status; throws InputError and MachineError.
int cmd_tokenize(std::span<const std::string> args);

}  // namespace spillway
