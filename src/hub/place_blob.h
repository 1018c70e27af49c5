// The last step of a download: puts a file in its place in a snapshot of the cache.
#pragma once

#include <cstdint>
#include <filesystem>

namespace spillway::hub {

// The links that a file system has. exFAT has none at all.
enum class Links : uint8_t { kSymbolic, kHard, kNone };

// Puts the blob of the cache at `file`, in one step, replacing any other: a symbolic link to it, as huggingface_hub
// makes, else a second name of it (hard link), else the blob itself if `may_move`, and a copy otherwise. `links` is the
// first kind to try. Other threads and processes may do the same.
void place_blob(const std::filesystem::path& blob, const std::filesystem::path& file, bool may_move,
                Links links = Links::kSymbolic);

}  // namespace spillway::hub
