// The real `spillway` program at a terminal of its own.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace spillway::testing {

class Terminal {
 public:
  explicit Terminal(const std::vector<std::string>& args);
  ~Terminal();
  Terminal(Terminal&&) = delete;

  void type(std::string_view keys) const;
  // Waits until the screen has got this text behind what was waited for before; false after kPatience
  // (tests/support/patience.h), or at the program's end.
  [[nodiscard]] bool shows(std::string_view text);
  // Waits until so many bytes more have come to the screen; false as for shows().
  [[nodiscard]] bool grows(size_t bytes);
  // The terminal's character for the end of a file.
  [[nodiscard]] char end_of_file() const;
  // Waits until the program has made another of it than Ctrl-D, before it reads anything; false after kPatience.
  [[nodiscard]] bool keeps_end_of_file() const;
  // Waits for the end; the exit status, or 128 + the signal that ended it.
  [[nodiscard]] int wait();
  // All that was written to it.
  [[nodiscard]] const std::string& screen() const { return screen_; }

 private:
  [[nodiscard]] bool read_more(int timeout_ms);

  pid_t pid_ = -1;
  int fd_ = -1;
  std::string screen_;
  size_t seen_ = 0;
};

}  // namespace spillway::testing
