// Standard input of this program, and so of those that it starts.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>
#include <string_view>

namespace spillway::testing {

// While it lives, standard input holds this text.
class StandardInput {
 public:
  explicit StandardInput(std::string_view text) : before_(::dup(STDIN_FILENO)) {
    const int file = ::open(std::filesystem::temp_directory_path().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (before_ < 0 || file < 0 || ::pwrite(file, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
      throw std::runtime_error("no standard input");
    ::dup2(file, STDIN_FILENO);
    ::close(file);
  }
  ~StandardInput() {
    ::dup2(before_, STDIN_FILENO);
    ::close(before_);
  }
  StandardInput(StandardInput&&) = delete;

 private:
  int before_;
};

}  // namespace spillway::testing
