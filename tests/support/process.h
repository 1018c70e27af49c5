// The real `spillway` program, run as a user runs it.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace spillway::testing {

// Arguments, one after another.
inline std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

struct Finished {
  int status = 0;  // exit status, or 128 + the signal that ended it
  std::string out, err;
};

// A running `spillway ARGS...`; killed and waited for if nobody did.
class Process {
 public:
  explicit Process(const std::vector<std::string>& args);
  ~Process();
  Process(Process&&) = delete;

  void signal(int number) const;
  // From now on no file may grow beyond so many bytes, nor be written behind them: as a disk that is full.
  void limit_files(int64_t bytes) const;
  // Paths to the nameless files that it has open: those of its disk tier. None once it has ended.
  [[nodiscard]] std::vector<std::filesystem::path> nameless_files() const;
  // Waits for the end and reads what it wrote. Once.
  Finished wait();

 private:
  pid_t pid_ = -1;
  int out_ = -1, err_ = -1;  // temporary files without a name
};

// Starts, waits.
Finished run_spillway(const std::vector<std::string>& args);

}  // namespace spillway::testing
