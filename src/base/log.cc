#include "base/log.h"

#include <unistd.h>

#include <string>

namespace spillway {

void log_line(std::string_view text) {
  std::string line(isatty(STDERR_FILENO) ? "\r\033[K" : "");
  line.append(text);
  line.push_back('\n');
  // One write, so that lines of several threads do not mix.
  [[maybe_unused]] const auto written = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace spillway
