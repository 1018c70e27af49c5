#include "rewards/outside.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "rewards/child_process.h"
#include "tests/support/captured.h"
#include "tests/support/outside_functions.h"
#include "tests/support/working_folder.h"

using namespace spillway;
using namespace spillway::rewards;
using namespace spillway::rewards::testing;
using spillway::testing::WorkingFolder;
namespace fs = std::filesystem;

TEST_CASE("any program may score, with a bare list or an object") {
  const RewardInput input = two_completions();
  CHECK(evaluate({shell("while read l; do echo '[1, null]'; done")}, input)[0].rewards == Rewards{1.0, {}});
  const auto output = evaluate(
      {shell(
          R"(while read l; do echo '{"id": 1, "rewards": [0.5, 2], "extra": {"a": [1, 2]}, "metrics": {"m": 3}}'; done)")},
      input)[0];
  CHECK(output.rewards == Rewards{0.5, 2.0});
  CHECK(output.extra == Json{{"a", {1, 2}}});
  CHECK(output.metrics == std::vector<std::pair<std::string, double>>{{"m", 3}});
}

TEST_CASE("a program gets the request that the protocol says") {
  const WorkingFolder workshop;
  (void)evaluate({shell("read -r l; printf '%s' \"$l\" > request; echo '[1, 1]'")}, two_completions());
  CHECK(
      workshop.read("request") ==
      R"({"op":"rewards","id":1,"prompts":["1 + 1?","2 + 2?"],"completions":["2","five"],"completion_ids":[[7],[8,9]],)"
      R"("columns":{"answer":[2,4]},"trainer_state":{"global_step":3,"max_steps":100,"epoch":0.5,)"
      R"("num_train_epochs":1.0,"num_input_tokens_seen":77}})");
}

TEST_CASE("signals that this process ignores are no program's to ignore") {
  const WorkingFolder workshop;
  using Handler = void (*)(int);
  const Handler pipe = ::signal(SIGPIPE, SIG_IGN), size = ::signal(SIGXFSZ, SIG_IGN);
  (void)evaluate({shell("read -r l; grep SigIgn /proc/self/status > ignored; echo '[1, 1]'")}, two_completions());
  ::signal(SIGPIPE, pipe);
  ::signal(SIGXFSZ, size);
  const std::string line = workshop.read("ignored");  // "SigIgn:\t0000000001001000"
  const uint64_t ignored = std::stoull(line.substr(line.find('\t') + 1), nullptr, 16);
  for (const int signal : {SIGPIPE, SIGXFSZ}) {
    CAPTURE(signal);
    CHECK((ignored >> (signal - 1) & 1) == 0);
  }
}

TEST_CASE("a program that misbehaves ends the call with exit status 2") {
  const std::pair<const char*, const char*> kWrong[] = {
      {"while read l; do echo hello; done", "expected a line of JSON from sh, got 'hello'; its standard output is"},
      {"while read l; do echo; done", "expected a line of JSON from sh, got an empty line;"},
      {"while read l; do echo '[NaN, 1]'; done", "expected a line of JSON from sh, got '[NaN, 1]';"},
      {"while read l; do echo '[1]'; done", "expected 2 rewards from sh, got 1;"},
      {"while read l; do echo '{}'; done", "expected an object with rewards from sh, got '{}';"},
      {"while read l; do echo 3; done", "expected an object with rewards from sh, got '3';"},
      {R"(while read l; do echo '{"rewards": 3}'; done)", "expected a list of rewards from sh, got '3';"},
      {R"(while read l; do echo '["a", 1]'; done)", "got a for completion 1 of 2;"},
      {"while read l; do echo '[true, 1]'; done", "got 'true' for completion 1 of 2;"},
      {"while read l; do echo '[1, 1e999]'; done", "got 1e999 for completion 2 of 2;"},
      {"while read l; do echo '[1, 1e39]'; done", "got '1e+39' for completion 2 of 2;"},
      {R"(while read l; do echo '{"id": 9, "rewards": [1, 1]}'; done)",
       "expected the answer to request 1 from sh, got one to '9';"},
      {R"(while read l; do echo '{"error": "no key"}'; done)", "sh raised no key; correct it"},
      {R"(while read l; do echo '{"rewards": [1, 1], "extra": {"a": 1}}'; done)",
       "expected 2 values of the extra column 'a' from sh, got '1';"},
      {R"(while read l; do echo '{"rewards": [1, 1], "metrics": {"a": "b"}}'; done)",
       "expected a number as the metric 'a' from sh, got b;"},
      {"read l; exit 3", "expected an answer from sh, got none: it ended with exit status 3;"},
      {"exit 0", "got none: it ended with exit status 0;"},
      {"read l; printf '[1, 1]'", "got none: it ended with exit status 0;"},
      {"read l; exec >&-; sleep 60", "got none: it closed its standard output;"}};
  for (const auto& [script, message] : kWrong) {
    CAPTURE(std::string(script));
    const Failure failure = failure_of_entry(shell(script));
    CAPTURE(failure.message);
    CHECK(failure.is_input_error);
    CHECK(failure.message.starts_with("[trl.reward_funcs] "));
    CHECK(has(failure.message, message));
  }
}

TEST_CASE("a program that speaks before it is asked, or twice, is refused") {
  const WorkingFolder workshop;
  const Failure early = failure_of([&] {
    RewardFunctions functions({.functions = {shell("echo '[1, 1]'; touch said; sleep 60")}});
    while (!fs::exists("said")) ::usleep(1000);
    (void)functions.evaluate(two_completions());
  });
  CHECK(has(early.message, "expected one line for each request from sh, got a line that nobody asked for;"));
  const Failure twice = failure_of([&] {
    RewardFunctions functions(
        {.functions = {shell("while read l; do echo '[1, 1]'; echo '[2, 2]'; touch twice; done")}});
    CHECK(functions.evaluate(two_completions())[0].rewards == Rewards{1.0, 1.0});
    while (!fs::exists("twice")) ::usleep(1000);
    (void)functions.evaluate(two_completions());
  });
  CHECK(has(twice.message, "got a line that nobody asked for;"));
}

TEST_CASE("a child that is killed by a signal is the machine's failure") {
  const Failure failure = failure_of_entry(shell("read l; kill -9 $$"));
  CHECK(!failure.is_input_error);
  CHECK(has(failure.message,
            "[trl.reward_funcs] expected an answer from sh, got none: it was ended by signal 9 (Killed);"));
}

TEST_CASE("a call that takes too long is an error, and its processes are gone") {
  const WorkingFolder workshop;
  const double before = now_seconds();
  const Failure failure = failure_of_entry(shell("sleep 60 & echo $! > pid; read l; sleep 60"), 0.3);
  CHECK(now_seconds() - before < 30);
  CHECK(failure.is_input_error);
  CHECK(failure.message ==
        "[trl.reward_timeout] expected an answer from sh within 0.3 s, got none; raise the key or make it faster");
  std::string pid = workshop.read("pid");
  pid.erase(pid.find_last_not_of('\n') + 1);
  REQUIRE(!pid.empty());
  for (int i = 0; i < 1000 && is_running(pid); ++i) ::usleep(10000);
  CHECK(!is_running(pid));
  workshop.write("mine.py", "import time\ndef slow(completions): time.sleep(60)\n");
  CHECK(has(failure_of_entry(python("mine.slow"), 3).message, "expected an answer from mine.slow within 3 s"));
}

TEST_CASE("what a child started does not keep its end from being seen, nor outlives it") {
  const WorkingFolder workshop;
  const Failure failure = failure_of_entry(shell("read l; sleep 60 & echo $! > pid; exit 4"));
  CHECK(has(failure.message, "it ended with exit status 4;"));
  std::string pid = workshop.read("pid");
  pid.erase(pid.find_last_not_of('\n') + 1);
  for (int i = 0; i < 1000 && is_running(pid); ++i) ::usleep(10000);
  CHECK(!is_running(pid));
}

TEST_CASE("a request larger than a pipe and a child that writes before it reads do not wait for each other") {
  RewardInput input = two_completions();
  input.completions[0] = std::string(5'000'000, 'x');
  const Captured captured = capture([&] {
    const auto outputs = evaluate({shell("head -c 300000 /dev/zero | tr '\\0' '\\n' >&2; while read -r l; do "
                                         "printf '[1, 1'; head -c 300000 /dev/zero | tr '\\0' ' '; echo ']'; done")},
                                  input);
    CHECK(outputs[0].rewards == Rewards{1.0, 1.0});
    return 0;
  });
  CHECK(captured.status == 0);
}

TEST_CASE("a child that stops reading is no broken pipe, and its answer counts") {
  RewardInput input = two_completions();
  input.completions[0] = std::string(1'000'000, 'x');
  CHECK(evaluate({shell("head -c 1 >/dev/null; exec <&-; echo '[1, 1]'; sleep 1")}, input)[0].rewards ==
        Rewards{1.0, 1.0});
}

TEST_CASE("lines that are too long end the reading") {
  ChildProcess child({"sh", "-c", "head -c 100000 /dev/zero | tr '\\0' x; sleep 60"}, "here");
  CHECK(child.read_line(60, 1000).outcome == ChildProcess::Outcome::kTooLong);
}

TEST_CASE("a line of standard error that is too long for one piece is shown in several, and nothing of it is lost") {
  const Captured captured = capture([] {
    (void)evaluate({shell("i=0; while [ $i -lt 3000 ]; do printf '%06d' $i; i=$((i + 1)); done >&2; echo >&2; "
                          "while read -r l; do echo '[1, 1]'; done")},
                   two_completions());
    return 0;
  });
  std::string shown = captured.err, expected;
  for (size_t at; (at = shown.find("\nsh: ")) != std::string::npos;) shown.erase(at, 5);
  for (int i = 0; i < 3000; ++i) expected += fmt::format("{:06}", i);
  CHECK(has(shown, "sh: " + expected + "\n"));
}

TEST_CASE("bytes that are no text are answers of no function") {
  const Failure failure = failure_of_entry(shell("while read l; do printf '\\377\\000[1, 1]\\n'; done"));
  CHECK(has(failure.message, "expected a line of JSON from sh, got '\\xff"));
}

TEST_CASE("a child that is idle at the end may tidy up") {
  const WorkingFolder workshop;
  (void)evaluate({shell("while read l; do echo '[1, 1]'; done; touch tidy")}, two_completions());
  CHECK(fs::exists("tidy"));
}

TEST_CASE("a model wants the engine, and is called like the others where it has one") {
  const RewardEntry model{.kind = RewardEntry::Kind::kModel, .name = "./judge", .where = "here"};
  const Failure failure = failure_of([&] { const RewardFunctions functions({.functions = {model}}); });
  CHECK(has(failure.message, "[here] expected a function, got the model './judge'; use a program that runs models"));
  struct Judge final : RewardFunction {
    RewardOutput evaluate(const RewardInput& input) override {
      RewardOutput output;
      output.rewards.assign(static_cast<size_t>(input.size()), 0.75);
      return output;
    }
  };
  RewardFunctions functions({.functions = {{.name = "think_format_reward"}, model}},
                            [](const RewardEntry&) { return std::make_unique<Judge>(); });
  CHECK(functions.names() == std::vector<std::string>{"think_format_reward", "judge"});
  CHECK(functions.evaluate(two_completions())[1].rewards == Rewards{0.75, 0.75});
}
