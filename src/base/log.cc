#include "base/log.h"

#include <unistd.h>

#include <string>

#include "base/text.h"

namespace spillway {

namespace {

void write_out(std::string_view text) {
  std::string line(isatty(STDERR_FILENO) ? "\r\033[K" : "");
  line.append(text);
  line.push_back('\n');
  // One write, so that lines of several threads do not mix.
  [[maybe_unused]] const auto written = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

void log_line(std::string_view text) { write_out(shown_line(text)); }

void log_text(std::string_view text) { write_out(shown_text(text)); }

}  // namespace spillway
