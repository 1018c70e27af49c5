#include "base/terminal.h"

#include <sys/ioctl.h>

namespace spillway {

int terminal_columns(int file) {
  winsize size{};
  return ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace spillway
