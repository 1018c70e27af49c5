// What time is measured by.
#pragma once

namespace spillway {

// Seconds of a steady clock, from a beginning of its own. Any thread.
[[nodiscard]] double now_seconds();

}  // namespace spillway
