#include "cli/ranks/job_parent.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/terminal.h"

namespace spillway {
namespace {

constexpr int kNoCommand = 127;  // a shell's status for a command that cannot be run

// Keeps the signals that this process waits for from its handlers, while it lives.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigemptyset(&waited_);
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD}) sigaddset(&waited_, signal);
    struct sigaction hangup {};
    if (::sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) sigaddset(&waited_, SIGHUP);
    sigprocmask(SIG_BLOCK, &waited_, &before_);
  }
  ~BlockedSignals() { restore(); }
  BlockedSignals(BlockedSignals&&) = delete;

  void restore() const { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  // Returns the next signal.
  [[nodiscard]] int wait() const {
    for (;;) {
      if (const int signal = ::sigwaitinfo(&waited_, nullptr); signal > 0) return signal;
    }
  }

 private:
  sigset_t waited_{}, before_{};
};

// The child's side; does not return.
[[noreturn]] void become(const std::vector<char*>& words, const BlockedSignals& signals, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(kInterruptedStatus);
  // A process group in the background is stopped if it reads from the terminal.
  if (const int nothing = ::open("/dev/null", O_RDONLY); nothing >= 0) ::dup2(nothing, STDIN_FILENO);
  signals.restore();
  ::execv(words.front(), words.data());
  const std::string text = fmt::format("[{}] expected a program, got \"{}\"; install openmpi-bin again\n",
                                       words.front(), std::strerror(errno));
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
  ::_exit(kNoCommand);
}

}  // namespace

int run_job(const std::vector<std::string>& command) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  if (::isatty(STDERR_FILENO) != 0)
    ::setenv(kTerminalColumns, fmt::format("{}", terminal_columns(STDERR_FILENO)).c_str(), 1);

  const BlockedSignals signals;
  const pid_t parent = ::getpid(), job = ::fork();
  if (job < 0)
    throw machine_error("mpirun", "expected to start a process, got \"{}\"; end other programs", std::strerror(errno));
  if (job == 0) become(words, signals, parent);
  bool is_stopping = false;
  for (;;) {
    const int signal = signals.wait();
    if (signal != SIGCHLD) {
      is_stopping = true;
      ::kill(job, SIGUSR1);
      continue;
    }
    int status = 0;
    if (::waitpid(job, &status, WNOHANG) != job) continue;
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    return is_stopping && WTERMSIG(status) == SIGUSR1 ? kInterruptedStatus : 128 + WTERMSIG(status);
  }
}

}  // namespace spillway
