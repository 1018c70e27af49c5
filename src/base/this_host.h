// The time and the name of this machine.
#pragma once

#include <string>

namespace spillway {

// Returns the seconds since 1970.
[[nodiscard]] double wall_seconds();
// Returns "localhost" where the system does not say.
[[nodiscard]] std::string host_name();

}  // namespace spillway
