// spillway preprocess CONFIG.yml [--out FOLDER] [--KEY VALUE ...]
#pragma once

#include <span>
#include <string>

namespace spillway {

// Writes the rows that training would see, in its order: train.jsonl and eval.jsonl, and summary.json. Takes the
// arguments after the command's name. Returns the exit status; throws InputError and MachineError.
int cmd_preprocess(std::span<const std::string> args);

}  // namespace spillway
