// Jobs of two processes, one of which is killed, stops or has no room left on its disk.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/index.h"
#include "tests/support/process.h"
#include "tests/support/rank_process.h"
#include "tests/support/tiny_job.h"

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;

namespace {

using Arguments = std::vector<std::string>;
using Ranks = std::array<pid_t, 2>;  // their processes

// Its learning rate does not depend on the number of steps.
const Arguments kShared = {"--lr_scheduler", "constant", "--warmup_steps",     "0", "--save_steps", "4",
                           "--val_set_size", "2",        "--save_total_limit", "2"};
const Arguments kEndless = {"--ranks", "2", "--max_steps", "100000"};

std::vector<int> checkpoints_of_run(const fs::path& output) {
  std::vector<int> steps;
  std::error_code error;
  for (fs::directory_iterator at(output, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with("checkpoint-")) steps.push_back(std::stoi(name.substr(std::string("checkpoint-").size())));
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

// Starts a job of two ranks, does `fault` to it behind its first checkpoint, and returns how it ended.
Finished ended_by(const Arguments& arguments, const fs::path& output, const std::function<void(const Ranks&)>& fault) {
  Process process(arguments);
  while (checkpoints_of_run(output).empty()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const Ranks ranks = {process_of_rank(0), process_of_rank(1)};
  fault(ranks);
  const Finished ended = process.wait();
  for (const pid_t rank : ranks) CHECK_FALSE(is_running(rank));
  return ended;
}

// From now on a process can write no file beyond a few bytes, as on a disk that is full.
void fill_disk_of(pid_t process) {
  const rlimit limit{8 << 10, 8 << 10};
  REQUIRE(prlimit(process, RLIMIT_FSIZE, &limit, nullptr) == 0);
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Goes on from the last checkpoint for a few steps, on one rank, and compares the result with that of a run that
// nothing has disturbed.
void check_goes_on(const TinyJob& job, const std::string& name, const Arguments& shared) {
  const std::vector<int> checkpoints = checkpoints_of_run(job.output(name));
  REQUIRE_FALSE(checkpoints.empty());
  const Arguments more =
      shared + Arguments{"--gradient_accumulation_steps", "4", "--max_steps", std::to_string(checkpoints.back() + 2)};
  REQUIRE(run_spillway(job.train(name, more + TinyJob::kResume)).status == 0);
  REQUIRE(run_spillway(job.train("undisturbed", more)).status == 0);
  CHECK(job.adapter(name) == job.adapter("undisturbed"));
}

}  // namespace

TEST_CASE("a rank that is killed ends the job with its name, and a run goes on from the last checkpoint") {
  const TinyJob job;
  const Finished ended = ended_by(job.train("run", kShared + kEndless), job.output("run"),
                                  [](const Ranks& ranks) { kill(ranks[1], SIGKILL); });
  CAPTURE(ended.err);
  CHECK(ended.status == 128 + SIGKILL);  // mpirun's
  CHECK(count_of(ended.err, "[rank 1 on ") == 1);
  CHECK(count_of(ended.err, "expected it to take part in an exchange, got its end") == 1);
  check_goes_on(job, "run", kShared);
}

TEST_CASE("a rank that stops ends the job behind ddp_timeout with its name") {
  for (const int rank : {0, 1}) {
    CAPTURE(rank);
    const TinyJob job;
    const Finished ended = ended_by(job.train("run", kShared + kEndless + Arguments{"--ddp_timeout", "5"}),
                                    job.output("run"), [&](const Ranks& ranks) { kill(nth(ranks, rank), SIGSTOP); });
    CAPTURE(ended.err);
    CHECK(ended.status == 3);
    const size_t end = ended.err.find("] expected a sign of life within 5 s, got none");
    REQUIRE(end != std::string::npos);
    CHECK(ended.err.find(fmt::format("rank {} on ", rank)) < end);
    CHECK(count_of(ended.err, "expected a sign of life") == 1);
    if (rank == 1) check_goes_on(job, "run", kShared);
  }
}

TEST_CASE("a rank without room on its disk ends the job with its name, or with rank 0's message") {
  const Arguments on_disk = kShared + Arguments{"--adapter", "none", "--optimizer_offload", "disk"};
  for (const int rank : {0, 1}) {
    CAPTURE(rank);
    const TinyJob job;
    const Finished ended = ended_by(job.train("run", on_disk + kEndless), job.output("run"),
                                    [&](const Ranks& ranks) { fill_disk_of(nth(ranks, rank)); });
    CAPTURE(ended.err);
    CHECK(ended.status == 3);
    CHECK(count_of(ended.err, "expected ") == 1);
    if (rank == 1) CHECK(count_of(ended.err, "[rank 1 on ") == 1);
    for (const int step : checkpoints_of_run(job.output("run"))) CHECK(step % 4 == 0);
  }
}
