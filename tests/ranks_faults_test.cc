// Jobs of two processes, one of which is killed, stops or has no room left on its disk.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/index.h"
#include "io/file.h"
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

// Runs a script of the shell as each of two ranks, started by mpirun itself; the program's path is $0.
Finished run_two_by_hand(const TinyJob& job, const std::string& script) {
  const fs::path file = job.output("ranks.sh"), said = job.output("ranks.err");
  std::ofstream(file) << script;
  const std::string command = fmt::format(
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun -q --bind-to none --map-by slot:OVERSUBSCRIBE "
      "-n 2 sh -c '. {}' {} 2> {}",
      file.string(), SPILLWAY_BINARY, said.string());
  const int status = std::system(command.c_str());
  REQUIRE(WIFEXITED(status));
  return {.status = WEXITSTATUS(status), .out = "", .err = read_file(said, 1 << 20)};
}

}  // namespace

TEST_CASE("what is wrong on one rank before the ranks have joined is said with its name, and ends all of them") {
  const TinyJob job;
  std::string command = "exec $0";
  for (const std::string& one : job.train("run", {"--max_steps", "1"})) command += " " + one;
  const std::string on_rank_1 = "test $OMPI_COMM_WORLD_RANK = 0 || ";
  for (const auto& [script, message] :
       {std::pair{on_rank_1 + "exec $0 train /nowhere/x.yml\n" + command, ": /nowhere/x.yml] expected "},
        {on_rank_1 + command + " --base_model /nowhere/model\n" + command,
         ": base_model] expected the folder of a model"},
        {on_rank_1 + command + " --no_such_key 1\n" + command, "no_such_key"},
        {on_rank_1 + command + " --ranks 3\n" + command,
         ": --ranks] expected 2, the processes that mpirun started, got 3"},
        {on_rank_1 + "export WORLD_SIZE=5\n" + command, ": WORLD_SIZE] expected 2 as mpirun says, got 5"}}) {
    CAPTURE(script);
    const Finished ended = run_two_by_hand(job, script + "\n");
    CAPTURE(ended.err);
    CHECK(ended.status == 2);
    CHECK(count_of(ended.err, "[rank 1 on ") == 1);
    CHECK(ended.err.find(message) != std::string::npos);
    CHECK(count_of(ended.err, "expected ") == 1);
  }
  const Finished all = run_two_by_hand(job, "export WORLD_SIZE=5\n" + command + "\n");
  CAPTURE(all.err);
  CHECK(all.status == 2);
  CHECK(count_of(all.err, "[WORLD_SIZE] expected 2 as mpirun says, got 5") == 1);
  CHECK(count_of(all.err, "expected ") == 1);
}

TEST_CASE("ranks end together where one of them asks for help, or never joins the others") {
  const TinyJob job;
  std::string command = "exec $0";
  for (const std::string& one : job.train("run", {"--max_steps", "1", "--ddp_timeout", "2"})) command += " " + one;
  const std::string on_rank_1 = "test $OMPI_COMM_WORLD_RANK = 0 || ";
  const Finished help = run_two_by_hand(job, on_rank_1 + "exec $0 train --help > /dev/null\n" + command + "\n");
  CAPTURE(help.err);
  CHECK(help.status == 2);
  CHECK(count_of(help.err, "[rank 1 on ") == 1);
  CHECK(count_of(help.err, ": spillway train] expected the command line of the other ranks, got one that asks for") ==
        1);
  CHECK(count_of(help.err, "expected ") == 1);

  const Finished gone = run_two_by_hand(job, on_rank_1 + "exec true\n" + command + "\n");
  CAPTURE(gone.err);
  CHECK(gone.status == 3);
  CHECK(count_of(gone.err, "[ddp_timeout] expected 2 ranks to join each other within 2 s, got fewer") == 1);

  const Finished all = run_two_by_hand(job, "exec $0 train --help > /dev/null\n");
  CAPTURE(all.err);
  CHECK(all.status == 0);
  CHECK(all.err == "");
}

TEST_CASE("what keeps all ranks from joining is said once, and what keeps one of them with its name") {
  const TinyJob job;
  const std::string wrong = "exec $0 generate /nowhere\n", wait = "exec sleep 60\n";
  const Finished all = run_two_by_hand(job, wrong);
  CAPTURE(all.err);
  CHECK(all.status == 2);
  CHECK(count_of(all.err, "expected one process, got one of 2 that mpirun started") == 1);
  const Finished one = run_two_by_hand(job, "test $OMPI_COMM_WORLD_RANK = 0 || " + wrong + wait);
  CAPTURE(one.err);
  CHECK(one.status == 2);
  CHECK(count_of(one.err, "[rank 1 on ") == 1);
  CHECK(count_of(one.err, ": spillway generate] expected one process, got one of 2 that mpirun started") == 1);
}

TEST_CASE("a rank with another config, or a budget in which the job does not fit, ends all of them with its name") {
  const TinyJob job;
  std::string command = "exec $0";
  for (const std::string& one : job.train("run", {"--max_steps", "2"})) command += " " + one;
  for (const auto& [more, message] :
       {std::pair{" --save_steps 1", ": save_steps] expected 3, as rank 0 has it, got 1; give all ranks the same"},
        {" --sample_prompts hello", ": sample_prompts] expected nothing, as rank 0 has it, got "},
        {" --gradient_checkpointing true", ": gradient_checkpointing] expected "},
        {" --memory.device 100KiB", "expected at least "}}) {
    CAPTURE(message);
    const std::string script = "test $OMPI_COMM_WORLD_RANK = 0 || " + command + more + "\n" + command + "\n";
    const Finished ended = run_two_by_hand(job, script);
    CAPTURE(ended.err);
    CHECK(ended.status == 2);
    CHECK(count_of(ended.err, "[rank 1 on ") == 1);
    CHECK(ended.err.find(message) != std::string::npos);
    CHECK_FALSE(fs::exists(job.output("run")));
  }
  const Finished nested = run_two_by_hand(job, "OMPI_COMM_WORLD_SIZE=1 " + command.substr(5) + " --ranks 2\n");
  CAPTURE(nested.err);
  CHECK(nested.status == 2);
  CHECK(count_of(nested.err, "[mpirun] expected none around a process that starts 2 ranks, got one") >= 1);
}

TEST_CASE("others wait for a rank no longer than a step takes, whatever lies between steps") {
  const TinyJob job;
  const Finished run = run_spillway(job.train("run", {"--ranks", "2", "--save_steps", "1", "--max_steps", "8"}));
  CAPTURE(run.err);
  CHECK(run.status == 0);
  constexpr std::string_view kWaiting = " % waiting for rank ";
  for (size_t at = run.err.find(kWaiting); at != std::string::npos; at = run.err.find(kWaiting, at + 1))
    CHECK(std::stoi(run.err.substr(run.err.rfind(' ', at - 1) + 1)) <= 100);
}

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
