// Prints messages for people on standard error. Standard output belongs to results.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace spillway {

// Writes one line to standard error, escaped by shown_line(), since parts of a message may come from anywhere. Clears a
// progress bar that stands on the line. Safe from any thread.
void log_line(std::string_view text);
// Does the same for several lines (shown_text()).
void log_text(std::string_view text);

// While it lives, this thread prints nothing: of several ranks of a job one speaks. May nest.
class MutedLog {
 public:
  MutedLog();
  ~MutedLog();
  MutedLog(MutedLog&&) = delete;
};

template <typename... Args>
void log_info(fmt::format_string<Args...> text, Args&&... args) {
  log_line(fmt::format(text, std::forward<Args>(args)...));
}
template <typename... Args>
void log_warning(fmt::format_string<Args...> text, Args&&... args) {
  log_line("warning: " + fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace spillway
