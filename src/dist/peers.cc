#include "dist/peers.h"

#include "base/sizes.h"

namespace spillway {

void Peers::copy(std::byte* to, const std::byte* from, int64_t bytes) { copy_memory(to, from, bytes); }

void Peers::clear(std::byte* to, int64_t bytes) { fill_memory(to, 0, bytes); }

}  // namespace spillway
