// The memory of this process, as the operating system counts it. Any thread.
#pragma once

#include <cstdint>

namespace spillway {

// The largest resident set so far (VmHWM), in bytes.
[[nodiscard]] int64_t peak_rss_bytes();
// The resident set now (VmRSS), in bytes.
[[nodiscard]] int64_t current_rss_bytes();
// What of the program itself (code and constants) has not been read yet, and counts once it is used; 0: not known.
[[nodiscard]] int64_t unread_program_bytes();
// Gives what the allocator has cached back to the system, so that what loading needed does not count for the run.
void release_free_memory();

}  // namespace spillway
