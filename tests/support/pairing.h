// Chooses the settings that each case of a test is tried with.
#pragma once

#include <cstddef>
#include <cstdlib>

namespace spillway::testing {

// Returns true if the test is to try case `i` with setting `j` of `settings`: `share` settings for each case, the next
// ones for the next case, so that every setting has its cases; by night (./test --nightly, which sets SPILLWAY_NIGHTLY)
// all with all.
inline bool is_paired(size_t i, size_t j, size_t settings, size_t share) {
  if (std::getenv("SPILLWAY_NIGHTLY")) return true;
  return (j + settings - i * share % settings) % settings < share;
}

}  // namespace spillway::testing
