// Where Spillway keeps what it would otherwise measure or make again.
#pragma once

#include <filesystem>

namespace spillway {

// $XDG_CACHE_HOME/spillway, else ~/.cache/spillway; empty where there is no home. It need not exist.
[[nodiscard]] std::filesystem::path cache_folder();

}  // namespace spillway
