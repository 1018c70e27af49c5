#include "tests/support/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>
#include <system_error>

namespace spillway::testing {
namespace {

int unnamed_file() {
  const int fd = open(std::filesystem::temp_directory_path().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) throw std::runtime_error("no temporary file");
  return fd;
}

std::string read_all(int fd) {
  std::string text(static_cast<size_t>(lseek(fd, 0, SEEK_END)), '\0');
  if (pread(fd, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    throw std::runtime_error("cannot read back");
  return text;
}

}  // namespace

Process::Process(const std::vector<std::string>& args) : out_(unnamed_file()), err_(unnamed_file()) {
  std::vector<char*> argv = {const_cast<char*>(SPILLWAY_BINARY)};
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    dup2(out_, STDOUT_FILENO);
    dup2(err_, STDERR_FILENO);
    execv(SPILLWAY_BINARY, argv.data());
    _exit(127);
  }
}

Process::~Process() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(out_);
  close(err_);
}

void Process::signal(int number) const { kill(pid_, number); }

void Process::limit_files(int64_t bytes) const {
  const rlimit limit{static_cast<rlim_t>(bytes), static_cast<rlim_t>(bytes)};
  if (prlimit(pid_, RLIMIT_FSIZE, &limit, nullptr) != 0) throw std::runtime_error("no limit can be set");
}

std::vector<std::filesystem::path> Process::nameless_files() const {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  // It may end meanwhile.
  const std::string folder = fmt::format("/proc/{}/fd", pid_);
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const bool is_output = std::stoi(at->path().filename().string()) <= STDERR_FILENO;
    if (!is_output && std::filesystem::read_symlink(at->path(), error).string().ends_with("(deleted)"))
      files.push_back(at->path());
  }
  return files;
}

Finished Process::wait() {
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_all(out_), read_all(err_)};
}

Finished run_spillway(const std::vector<std::string>& args) { return Process(args).wait(); }

}  // namespace spillway::testing
