// Reads clocks.
#pragma once

namespace spillway {

// Returns the seconds of a steady clock with an arbitrary origin. Safe from any thread.
[[nodiscard]] double now_seconds();
// Returns the CPU time of the calling thread.
[[nodiscard]] double thread_cpu_seconds();

}  // namespace spillway
