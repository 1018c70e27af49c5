// What time is measured by.
#pragma once

namespace spillway {

// Seconds of a steady clock, from a beginning of its own. Any thread.
[[nodiscard]] double now_seconds();
// CPU time of the calling thread.
[[nodiscard]] double thread_cpu_seconds();

}  // namespace spillway
