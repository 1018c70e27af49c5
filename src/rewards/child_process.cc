#include "rewards/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/clock.h"
#include "base/error.h"
#include "base/index.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/text.h"

namespace spillway::rewards {
namespace {

constexpr double kGraceSeconds = 2;       // for a child to end by itself
constexpr double kSliceSeconds = 0.1;     // between looks at whether to go on waiting
constexpr size_t kMostErrorBytes = 8192;  // of a line of standard error that is shown in one piece

// A pipe, both ends of which close when another program is run.
struct Pipe {
  int read = -1, write = -1;

  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
      throw machine_error("trl.reward_funcs", "expected a pipe, got {}; raise the limit of open files",
                          std::strerror(errno));
    read = ends[0];
    write = ends[1];
  }
  ~Pipe() {
    if (read >= 0) ::close(read);
    if (write >= 0) ::close(write);
  }
  Pipe(Pipe&&) = delete;

  int take(int Pipe::*end) {
    const int result = this->*end;
    this->*end = -1;
    return result;
  }
};

// Makes writing to a child that has closed its input an error of the write, instead of the end of this process.
class NoBrokenPipeSignal {
 public:
  NoBrokenPipeSignal() {
    sigset_t pending;
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
    ::sigemptyset(&only_);
    ::sigaddset(&only_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &only_, &before_);
  }
  ~NoBrokenPipeSignal() {
    const timespec at_once{};
    if (!was_pending_) {
      while (::sigtimedwait(&only_, nullptr, &at_once) < 0 && errno == EINTR) {
      }
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoBrokenPipeSignal(NoBrokenPipeSignal&&) = delete;

 private:
  sigset_t only_{}, before_{};
  bool was_pending_ = false;
};

void do_not_block(int file) { ::fcntl(file, F_SETFL, ::fcntl(file, F_GETFL) | O_NONBLOCK); }

void close_file(int& file) {
  if (file >= 0) ::close(file);
  file = -1;
}

// Appends the available bytes to `text`. Returns false at the end of the file.
bool read_available(int file, std::string& text) {
  std::array<char, 65536> part;
  const ssize_t got = ::read(file, part.data(), part.size());
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  text.append(part.data(), static_cast<size_t>(got));
  return got > 0;
}

// Returns the environment without what a launcher says of this rank: the child is none, and a library in it must not
// wait for the others.
std::vector<char*> environment_of_child() {
  constexpr std::array<std::string_view, 6> kOfRanks = {"OMPI_",     "PMIX_",        "PMI_",
                                                        "MPI_LOCAL", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"};
  std::vector<char*> result;
  for (char** one = environ; *one != nullptr; ++one) {
    const auto begins_it = [one](std::string_view name) { return std::string_view(*one).starts_with(name); };
    if (std::none_of(kOfRanks.begin(), kOfRanks.end(), begins_it)) result.push_back(*one);
  }
  result.push_back(nullptr);
  return result;
}

// Runs in the new process, which must not allocate. Does not return; writes the errno of a failure to `report`.
[[noreturn]] void become(char* const* arguments, char* const* environment, const std::array<int, 3>& streams,
                         int report, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it ended before the line above
  // Signals that this process ignores must have their default effect in the child: a pipeline of the shell ends by
  // SIGPIPE.
  for (const int ignored : {SIGXFSZ, SIGPIPE}) std::signal(ignored, SIG_DFL);
  // No stream is in another's place, since hold_standard_streams() in main() keeps 0 to 2 taken.
  for (int i = 0; i < 3; ++i) ::dup2(nth(streams, i), i);
  // The child must not get files that libraries opened without O_CLOEXEC.
  static_cast<void>(::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC));
  ::execvpe(arguments[0], arguments, environment);
  const int error = errno;
  [[maybe_unused]] const auto written = ::write(report, &error, sizeof error);
  ::_exit(127);
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& command, std::string_view where) { start(command, where); }

void ChildProcess::start(const std::vector<std::string>& command, std::string_view where) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const std::vector<char*> environment = environment_of_child();
  Pipe in, out, err, report;
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0)
    throw machine_error(where, "expected to start {}, got {}; end other programs", quote(command[0]),
                        std::strerror(errno));
  if (pid_ == 0) become(arguments.data(), environment.data(), {in.read, out.write, err.write}, report.write, parent);
  ::setpgid(pid_, pid_);  // in this process, too: the order of the two calls does not matter
  ::close(report.take(&Pipe::write));
  int error = 0;
  ssize_t got = 0;
  while ((got = ::read(report.read, &error, sizeof error)) < 0 && errno == EINTR) {
  }
  if (got == static_cast<ssize_t>(sizeof error)) {
    ::waitpid(pid_, nullptr, 0);
    throw input_error(where, "expected a program that can be run, got {} ({}); install it or correct the name",
                      quote(command[0]), std::strerror(error));
  }
  in_ = in.take(&Pipe::write);
  out_ = out.take(&Pipe::read);
  err_ = err.take(&Pipe::read);
  for (const int file : {in_, out_, err_}) do_not_block(file);
}

ChildProcess::~ChildProcess() {
  close_file(in_);
  if (!is_asked_) static_cast<void>(wait_for_exit(kGraceSeconds));
  kill_group();
  if (err_ >= 0) show_errors();
  show_line(errors_);
  close_file(out_);
  close_file(err_);
}

void ChildProcess::send(std::string_view text) {
  to_write_.erase(0, written_);
  written_ = 0;
  to_write_ += text;
}

bool ChildProcess::has_output() {
  read_some();
  return !output_.empty();
}

ChildProcess::Read ChildProcess::read_line(double timeout_seconds, size_t most_bytes) {
  const TidyFirst tidy;
  is_asked_ = true;
  const double until = now_seconds() + timeout_seconds;
  while (true) {
    check_interrupt();
    const size_t line_break = output_.find('\n', searched_);
    if (line_break != std::string::npos) {
      if (line_break > most_bytes) return {Outcome::kTooLong, ""};
      Read result{Outcome::kLine, output_.substr(0, line_break)};
      output_.erase(0, line_break + 1);
      searched_ = 0;
      is_asked_ = false;
      if (err_ >= 0) show_errors();  // its output before the answer is about the answer
      return result;
    }
    searched_ = output_.size();
    if (output_.size() > most_bytes) return {Outcome::kTooLong, ""};
    if (out_ < 0) return {Outcome::kEnded, ""};
    const double left = until - now_seconds();
    if (left <= 0) {
      kill_group();
      return {Outcome::kLate, ""};
    }
    // Processes that it started may hold its output open after its own end.
    const bool was_exited = has_exited();
    exchange(was_exited ? 0 : std::min(left, kSliceSeconds));
    if (was_exited && output_.size() == searched_) close_file(out_);
  }
}

void ChildProcess::exchange(double seconds) {
  std::array<pollfd, 3> files{pollfd{written_ < to_write_.size() ? in_ : -1, POLLOUT, 0}, pollfd{out_, POLLIN, 0},
                              pollfd{err_, POLLIN, 0}};
  if (::poll(files.data(), files.size(), static_cast<int>(seconds * 1000) + 1) <= 0) return;
  if (files[2].revents != 0) show_errors();
  if (files[1].revents != 0) read_some();
  if (files[0].revents != 0) write_some();
}

void ChildProcess::write_some() {
  const NoBrokenPipeSignal guard;
  const ssize_t got = ::write(in_, to_write_.data() + written_, to_write_.size() - written_);
  if (got > 0) written_ += static_cast<size_t>(got);
  if (got < 0 && errno != EAGAIN && errno != EINTR) written_ = to_write_.size();  // it reads no more
  if (written_ < to_write_.size()) return;
  to_write_ = {};
  written_ = 0;
}

void ChildProcess::read_some() {
  if (out_ >= 0 && !read_available(out_, output_)) close_file(out_);
}

void ChildProcess::show_errors() {
  size_t before = errors_.size();
  while (err_ >= 0) {
    if (!read_available(err_, errors_)) close_file(err_);
    if (errors_.size() == before) break;
    for (size_t end; (end = errors_.find_first_of("\r\n")) != std::string::npos || errors_.size() > kMostErrorBytes;) {
      const bool is_cut = end > kMostErrorBytes;  // no line break is there to be left out
      if (is_cut) end = kMostErrorBytes;
      show_line(std::string_view(errors_).substr(0, end));
      errors_.erase(0, is_cut ? end : end + 1);
    }
    before = errors_.size();
  }
}

void ChildProcess::show_line(std::string_view line) {
  if (says_itself_ && line.starts_with(kSpeaker)) {
    label_ = line.substr(1);
  } else {
    show(label_, line);
  }
}

void ChildProcess::show(std::string_view label, std::string_view text) {
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of("\r\n"), text.size());
    if (end > 0) log_line(fmt::format("{}: {}", label, text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

bool ChildProcess::has_exited() {
  if (!exited_ && ::waitid(P_PID, static_cast<id_t>(pid_), &status_, WEXITED | WNOHANG | WNOWAIT) == 0)
    exited_ = status_.si_pid == pid_;
  return exited_;
}

bool ChildProcess::wait_for_exit(double seconds) {
  for (const double until = now_seconds() + seconds; !has_exited();) {
    if (now_seconds() >= until) return false;
    if (err_ >= 0) show_errors();  // it may be waiting for room there
    ::usleep(2000);
  }
  return true;
}

void ChildProcess::kill_group() {
  if (reaped_) return;
  ::kill(-pid_, SIGKILL);
  while (::waitid(P_PID, static_cast<id_t>(pid_), &status_, WEXITED) != 0 && errno == EINTR) {
  }
  exited_ = reaped_ = true;
}

ChildProcess::End ChildProcess::end() {
  if (err_ >= 0) show_errors();
  if (!wait_for_exit(kGraceSeconds)) {
    kill_group();
    return {"closed its standard output", 0};
  }
  if (err_ >= 0) show_errors();
  if (status_.si_code == CLD_EXITED) return {fmt::format("ended with exit status {}", status_.si_status), 0};
  const int signal = status_.si_status;
  return {fmt::format("was ended by signal {} ({})", signal, ::strsignal(signal)), signal};
}

}  // namespace spillway::rewards
