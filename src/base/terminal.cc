#include "base/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

namespace spillway {
namespace {

// Returns the columns of the terminal at the end of the pipe; 0 where there is none.
int columns_behind(int file) {
  const char* const columns = file == STDERR_FILENO ? std::getenv(kTerminalColumns) : nullptr;
  return columns == nullptr ? 0 : std::atoi(columns);
}

}  // namespace

bool is_terminal(int file) { return ::isatty(file) != 0 || columns_behind(file) > 0; }

int terminal_columns(int file) {
  winsize size{};
  if (::ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const int behind = columns_behind(file);
  return behind > 0 ? behind : 80;
}

}  // namespace spillway
