// Facts about the terminal.
#pragma once

namespace spillway {

// The environment variable by which a process with a terminal tells those whose standard error comes there by a pipe
// how many columns it has.
inline constexpr const char* kTerminalColumns = "SPILLWAY_TERMINAL_COLUMNS";

// Returns true if what is written to this file descriptor is shown on a terminal as it comes.
[[nodiscard]] bool is_terminal(int file);

// Returns how many columns the terminal behind this file descriptor has; 80 where it is none, or does not say.
[[nodiscard]] int terminal_columns(int file);

}  // namespace spillway
