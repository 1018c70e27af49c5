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
#include <ctime>

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
  // Returns the next signal; something else after a while, as SIGCHLD may go to a thread that ignores it.
  [[nodiscard]] int wait() const {
    constexpr timespec kWhile = {0, 200'000'000};
    return ::sigtimedwait(&waited_, nullptr, &kWhile);
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

// Waits, for a few seconds at most, until the processes that a job has left are gone: mpirun kills ranks and does not
// wait for their end, and until then a rank keeps its memory and its GPU's.
void wait_for_orphans() {
  constexpr int kTries = 500;
  constexpr timespec kWhile = {0, 20'000'000};
  for (int tries = 0; tries < kTries; ++tries) {
    const pid_t ended = ::waitpid(-1, nullptr, WNOHANG);
    if (ended < 0) return;
    if (ended == 0) ::nanosleep(&kWhile, nullptr);
  }
}

}  // namespace

int run_job(const std::vector<std::string>& command) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  if (::isatty(STDERR_FILENO) != 0)
    ::setenv(kTerminalColumns, fmt::format("{}", terminal_columns(STDERR_FILENO)).c_str(), 1);

  const BlockedSignals signals;
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t parent = ::getpid(), job = ::fork();
  if (job < 0)
    throw machine_error("mpirun", "expected to start a process, got \"{}\"; end other programs", std::strerror(errno));
  if (job == 0) become(words, signals, parent);
  bool is_stopping = false;
  for (;;) {
    const int signal = signals.wait();
    if (signal > 0 && signal != SIGCHLD) {
      is_stopping = true;
      ::kill(job, SIGUSR1);
    }
    int status = 0;
    if (::waitpid(job, &status, WNOHANG) != job) continue;
    if (status != 0) wait_for_orphans();
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    return is_stopping && WTERMSIG(status) == SIGUSR1 ? kInterruptedStatus : 128 + WTERMSIG(status);
  }
}

}  // namespace spillway
