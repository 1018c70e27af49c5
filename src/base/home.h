// `~` in paths: a shell replaces it only where it begins a word, and not in `--out=~/model` or in a file.
#pragma once

#include <string>

namespace spillway {

// "~" and "~/..." with the home folder ($HOME) in its place; any other path, and all where there is none, as it is.
[[nodiscard]] std::string expand_home(std::string path);

}  // namespace spillway
