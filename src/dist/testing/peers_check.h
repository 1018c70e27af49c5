// Checks of any Peers.
#pragma once

#include "dist/peers.h"

namespace spillway {

// Runs collectives of many sizes, and compares what they give with what this rank works out by itself: the sums in
// order of rank. Throws std::runtime_error with the first that differs. Called by all ranks.
void check_peers(Peers& peers);

}  // namespace spillway
