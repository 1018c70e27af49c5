// Downloads from the Hugging Face hub with a progress bar.
#pragma once

#include "hub/lookup.h"

namespace spillway {

// Returns a lookup that downloads what is not on this machine and shows its progress.
[[nodiscard]] hub::Lookup fetching_lookup();

}  // namespace spillway
