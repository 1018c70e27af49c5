// Expands `~` in paths: a shell replaces it only at the beginning of a word, and not in `--out=~/model` or in a file.
#pragma once

#include <string>

namespace spillway {

// Returns "~" and "~/..." with the home folder ($HOME) in its place; any other path, and all if there is none,
// unchanged.
[[nodiscard]] std::string expand_home(std::string path);

}  // namespace spillway
