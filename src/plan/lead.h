// The lead of transfers that come before their readers: they begin earlier than the rate of their lane asks for.
#pragma once

namespace spillway {

// Returns the lead of a transfer that takes so many seconds: a share of them, and a millisecond.
[[nodiscard]] constexpr double lead_seconds(double seconds) { return 0.5 * seconds + 1e-3; }

}  // namespace spillway
