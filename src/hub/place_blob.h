// The last step of a download: a file's place in a snapshot of the cache.
#pragma once

#include <cstdint>
#include <filesystem>

namespace spillway::hub {

// What a file system has. exFAT has no links at all.
enum class Links : uint8_t { kSymbolic, kHard, kNone };

// Puts the blob of the cache where `file` shall be, in one step, over any other: a link to it where there are links (a
// symbolic one, as huggingface_hub has it), else a second name of it, else the blob itself where `may_move`, and a copy
// of it where not. `links` is what is tried first. Other threads and processes may do the same.
void place_blob(const std::filesystem::path& blob, const std::filesystem::path& file, bool may_move,
                Links links = Links::kSymbolic);

}  // namespace spillway::hub
