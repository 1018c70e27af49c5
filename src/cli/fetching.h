// Fetching from the Hugging Face hub with a progress bar.
#pragma once

#include "hub/lookup.h"

namespace spillway {

// Fetches what is not on this machine, and shows how far that is.
[[nodiscard]] hub::Lookup fetching_lookup();

}  // namespace spillway
