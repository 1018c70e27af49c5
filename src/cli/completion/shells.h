// Scripts that tell a shell how to complete `spillway`. Names in them are the program's own; meanings are quoted.
#pragma once

#include <string>
#include <vector>

#include "cli/completion/completed_command.h"

namespace spillway {

using Completion = std::string (*)(const std::vector<CompletedCommand>& commands,
                                   const std::vector<CompletedKey>& keys);

// For bash 4.4 and later; does not need the package bash-completion.
[[nodiscard]] std::string bash_completion(const std::vector<CompletedCommand>& commands,
                                          const std::vector<CompletedKey>& keys);
// The content of a file `_spillway` in a folder of zsh's fpath.
[[nodiscard]] std::string zsh_completion(const std::vector<CompletedCommand>& commands,
                                         const std::vector<CompletedKey>& keys);
[[nodiscard]] std::string fish_completion(const std::vector<CompletedCommand>& commands,
                                          const std::vector<CompletedKey>& keys);

}  // namespace spillway
