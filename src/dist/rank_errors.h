// Errors of a rank, which transports and those who speak for the ranks have in common.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace spillway {

// Puts the rank into the brackets of "[where] expected ...", unless it is rank 0, which speaks for all.
[[nodiscard]] inline std::string message_of_rank(int rank, std::string_view host, std::string_view message) {
  if (rank == 0) return std::string(message);
  if (message.starts_with('[')) return fmt::format("[rank {} on {}: {}", rank, host, message.substr(1));
  return fmt::format("[rank {} on {}] {}", rank, host, message);
}

// A rank that took no part in a collective within the timeout.
[[nodiscard]] inline MachineError silent_rank(int rank, std::string_view host, double timeout_seconds) {
  return machine_error(fmt::format("rank {} on {}", rank, host),
                       "expected a sign of life within {:g} s, got none; see to that host, or raise ddp_timeout if it "
                       "was only slow",
                       timeout_seconds);
}

// A rank that has ended before a collective that the others are in.
[[nodiscard]] inline MachineError ended_rank(int rank, std::string_view host) {
  return machine_error(fmt::format("rank {} on {}", rank, host),
                       "expected it to take part in an exchange, got its end; see what it said");
}

}  // namespace spillway
