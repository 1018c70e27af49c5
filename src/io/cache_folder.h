// The folder for results that Spillway would otherwise measure or make again.
#pragma once

#include <filesystem>

namespace spillway {

// Returns $XDG_CACHE_HOME/spillway, else ~/.cache/spillway; empty if there is no home. It need not exist.
[[nodiscard]] std::filesystem::path cache_folder();

}  // namespace spillway
