// How much memory this computer has. Any thread.
#pragma once

#include <cstdint>

namespace spillway {

// Bytes of memory of the computer, or of the control group that this process runs in, whichever is less.
[[nodiscard]] int64_t total_memory_bytes();
// What of it can be had without swapping: what is free, and what the page cache would give back.
[[nodiscard]] int64_t available_memory_bytes();

}  // namespace spillway
