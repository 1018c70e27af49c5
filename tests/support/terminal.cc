#include "tests/support/terminal.h"

#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <stdexcept>

#include "tests/support/patience.h"

namespace spillway::testing {
namespace {

constexpr int kPatienceMs = std::chrono::milliseconds(kPatience).count();

}  // namespace

Terminal::Terminal(const std::vector<std::string>& args) {
  std::vector<char*> argv = {const_cast<char*>(SPILLWAY_BINARY)};
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  const winsize size{.ws_row = 24, .ws_col = 200};
  pid_ = forkpty(&fd_, nullptr, nullptr, &size);
  if (pid_ < 0) throw std::runtime_error("no terminal");
  if (pid_ == 0) {
    setenv("TERM", "vt100", 1);
    execv(SPILLWAY_BINARY, argv.data());
    _exit(127);
  }
}

Terminal::~Terminal() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(fd_);
}

void Terminal::type(std::string_view keys) const {
  if (write(fd_, keys.data(), keys.size()) != static_cast<ssize_t>(keys.size())) throw std::runtime_error("not typed");
}

bool Terminal::read_more(int timeout_ms) {
  pollfd file{fd_, POLLIN, 0};
  if (poll(&file, 1, timeout_ms) <= 0) return false;
  std::array<char, 4096> bytes;
  const ssize_t count = read(fd_, bytes.data(), bytes.size());
  if (count <= 0) return false;
  screen_.append(bytes.data(), static_cast<size_t>(count));
  return true;
}

bool Terminal::shows(std::string_view text) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    if (const size_t at = screen_.find(text, seen_); at != std::string::npos) {
      seen_ = at + text.size();
      return true;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (left.count() <= 0 || !read_more(static_cast<int>(left.count()))) return false;
  }
}

bool Terminal::grows(size_t bytes) {
  const size_t enough = screen_.size() + bytes;
  while (screen_.size() < enough) {
    if (!read_more(kPatienceMs)) return false;
  }
  return true;
}

char Terminal::end_of_file() const {
  termios state{};
  return tcgetattr(fd_, &state) == 0 ? static_cast<char>(state.c_cc[VEOF]) : '\0';
}

bool Terminal::keeps_end_of_file() const {
  return comes_true([&] { return end_of_file() != '\x04'; });
}

int Terminal::wait() {
  while (read_more(kPatienceMs)) {
  }
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace spillway::testing
