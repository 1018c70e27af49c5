// Queries how much memory this computer has. Safe from any thread.
#pragma once

#include <cstdint>

namespace spillway {

// Returns the bytes of memory of the computer, or of the control group that this process runs in, whichever is less.
[[nodiscard]] int64_t total_memory_bytes();
// Returns the bytes available without swapping: free memory, and memory that the page cache would give back.
[[nodiscard]] int64_t available_memory_bytes();

}  // namespace spillway
