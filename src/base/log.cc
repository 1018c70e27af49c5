#include "base/log.h"

#include <unistd.h>

#include <cstdlib>
#include <string>

#include "base/terminal.h"
#include "base/text.h"

namespace spillway {

namespace {

// Colours warnings yellow and errors red, by their beginnings: `warning:`, or the `[where]` of an error. Only on a
// terminal, and unless NO_COLOR is set.
std::string coloured(std::string_view text) {
  const char* const no_color = std::getenv("NO_COLOR");
  if (no_color != nullptr && *no_color != '\0') return std::string(text);
  constexpr std::string_view kWarning = "warning:", kYellow = "\033[33m", kRed = "\033[31m", kPlain = "\033[0m";
  size_t marked = 0;
  if (text.starts_with(kWarning)) {
    marked = kWarning.size();
  } else if (text.starts_with('[')) {
    marked = text.find("] ") == std::string_view::npos ? 0 : text.find("] ") + 1;
  }
  if (marked == 0) return std::string(text);
  std::string line(marked == kWarning.size() && text[0] != '[' ? kYellow : kRed);
  return line.append(text.substr(0, marked)).append(kPlain).append(text.substr(marked));
}

thread_local int muted = 0;

void write_out(std::string_view text) {
  if (muted > 0) return;
  std::string line;
  if (is_terminal(STDERR_FILENO)) {
    line = "\r\033[K" + coloured(text);
  } else {
    line = text;
  }
  line.push_back('\n');
  // A single write, so that lines of several threads do not mix.
  [[maybe_unused]] const auto written = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

void log_line(std::string_view text) { write_out(shown_line(text)); }

void log_text(std::string_view text) { write_out(shown_text(text)); }

MutedLog::MutedLog() { ++muted; }
MutedLog::~MutedLog() { --muted; }

}  // namespace spillway
