// Facts about the terminal.
#pragma once

namespace spillway {

// Returns how many columns the terminal behind this file descriptor has; 80 where it is none, or does not say.
[[nodiscard]] int terminal_columns(int file);

}  // namespace spillway
