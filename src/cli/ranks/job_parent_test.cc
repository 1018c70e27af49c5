// With a script in the place of mpirun, which knows SIGUSR1 as that does.
#include "cli/ranks/job_parent.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "base/temporary_folder.h"
#include "io/file.h"

using namespace spillway;

namespace {

namespace fs = std::filesystem;

class FakeMpirun {
 public:
  explicit FakeMpirun(const std::string& script) : path_(folder_.path() / "mpirun") {
    std::ofstream(path_) << "#!/bin/sh\ncd " << folder_.path().string() << "\n" << script;
    fs::permissions(path_, fs::perms::owner_all);
  }

  [[nodiscard]] std::vector<std::string> command(const std::vector<std::string>& args = {}) const {
    std::vector<std::string> words = {path_.string()};
    words.insert(words.end(), args.begin(), args.end());
    return words;
  }
  [[nodiscard]] bool has(const char* name) const { return fs::exists(folder_.path() / name); }
  // Returns the text of a file that the script writes, once it has.
  [[nodiscard]] std::string text_of(const char* name) const {
    const fs::path path = folder_.path() / name;
    for (int tries = 0; tries < 2000; ++tries) {
      if (fs::exists(path)) {
        const std::string text = read_file(path, 4096);
        if (text.ends_with('\n')) return text;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return "";
  }

 private:
  TemporaryFolder folder_;
  fs::path path_;
};

// A process that runs the job.
class Parent {
 public:
  explicit Parent(const FakeMpirun& mpirun) : pid_(::fork()) {
    if (pid_ == 0) ::_exit(run_job(mpirun.command()));
  }
  void signal(int number) const { ::kill(pid_, number); }
  [[nodiscard]] int status() const {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_;
};

bool is_there(const std::string& pid) {
  const fs::path status = fs::path("/proc") / pid / "stat";
  std::ifstream file(status);
  std::string word;
  file >> word >> word >> word;
  return !word.empty() && word != "Z";
}

// Traps SIGUSR1 as ranks do, which then save for a while; says when it is ready.
constexpr const char* kStopsLater =
    "trap 'echo stopped >> stopped; sleep 0.1; exit 130' USR1\necho $$ > ready\nwhile :; do sleep 0.02; done\n";

}  // namespace

TEST_CASE("a job's status is its parent's, and its arguments arrive as they are") {
  const FakeMpirun mpirun("printf '%s|' \"$@\" > args; echo >> args; cat > input; echo end >> input; exit 3\n");
  CHECK(run_job(mpirun.command({"-n", "2", "a b", "c'd"})) == 3);
  CHECK(mpirun.text_of("args") == "-n|2|a b|c'd|\n");
  CHECK(mpirun.text_of("input") == "end\n");
  CHECK(run_job(FakeMpirun("kill -9 $$\n").command()) == 137);
}

TEST_CASE("each signal that asks the job to stop comes to it once, as SIGUSR1, and is waited for") {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    CAPTURE(signal);
    const FakeMpirun mpirun(kStopsLater);
    const Parent parent(mpirun);
    CHECK(mpirun.text_of("ready") != "");
    parent.signal(signal);
    CHECK(parent.status() == 130);
    CHECK(mpirun.text_of("stopped") == "stopped\n");
  }
}

TEST_CASE("a terminal's signals do not reach the job by themselves") {
  const FakeMpirun mpirun("cut -d' ' -f5 /proc/$$/stat > group; echo $$ > process\n");
  CHECK(run_job(mpirun.command()) == 0);
  CHECK(mpirun.text_of("group") == mpirun.text_of("process"));
}

TEST_CASE("a job that knows no SIGUSR1 yet is interrupted all the same") {
  const FakeMpirun mpirun("echo $$ > ready\nexec sleep 60\n");
  const Parent parent(mpirun);
  CHECK(mpirun.text_of("ready") != "");
  parent.signal(SIGINT);
  CHECK(parent.status() == 130);
}

TEST_CASE("what a failed job leaves behind has ended when its parent returns") {
  const FakeMpirun mpirun("(sleep 0.3; echo ended > ended) &\nexit 3\n");
  const Parent parent(mpirun);
  CHECK(parent.status() == 3);
  CHECK(mpirun.has("ended"));
}

TEST_CASE("no job outlives its parent") {
  const FakeMpirun mpirun("echo $$ > ready\nexec sleep 60\n");
  const Parent parent(mpirun);
  std::string pid = mpirun.text_of("ready");
  REQUIRE(!pid.empty());
  pid.pop_back();
  CHECK(is_there(pid));
  parent.signal(SIGKILL);
  CHECK(parent.status() == 137);
  for (int tries = 0; tries < 2000 && is_there(pid); ++tries) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK_FALSE(is_there(pid));
}
