// Reads the memory of this process, as the operating system counts it. Safe from any thread.
#pragma once

#include <cstdint>

namespace spillway {

// Returns the largest resident set so far (VmHWM), in bytes.
[[nodiscard]] int64_t peak_rss_bytes();
// Returns the resident set now (VmRSS), in bytes.
[[nodiscard]] int64_t current_rss_bytes();
// Returns the bytes of the program itself (code and constants) that have not been read yet, and count once used; 0: not
// known.
[[nodiscard]] int64_t unread_program_bytes();
// Returns memory cached by the allocator to the system, so that memory needed only for loading does not count for the
// run.
void release_free_memory();

}  // namespace spillway
