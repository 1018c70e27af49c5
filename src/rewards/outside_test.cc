#include "rewards/outside.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "tests/support/captured.h"
#include "tests/support/source_folder.h"
#include "tests/support/temporary_folder.h"

using namespace spillway;
using namespace spillway::rewards;
namespace fs = std::filesystem;

namespace {

// A working directory of its own, from which Python imports.
class Workshop {
 public:
  Workshop() {
    fs::current_path(folder_.path());
    ::setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
  }
  ~Workshop() { fs::current_path(before_); }
  Workshop(Workshop&&) = delete;

  void write(const std::string& name, std::string_view text) const { std::ofstream(folder_.path() / name) << text; }
  [[nodiscard]] std::string read(const std::string& name) const {
    std::ifstream file(folder_.path() / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  fs::path before_ = fs::current_path();
  TemporaryFolder folder_;
};

RewardEntry python(const std::string& name) {
  return {.kind = RewardEntry::Kind::kPython, .name = name, .where = "c.yml:1: trl.reward_funcs.0"};
}
RewardEntry shell(const std::string& script) {
  return {.kind = RewardEntry::Kind::kProgram, .command = {"sh", "-c", script}, .where = "c.yml:1: trl.reward_funcs.0"};
}

RewardInput two_completions() {
  RewardInput input;
  input.prompts = {"1 + 1?", "2 + 2?"};
  input.completions = {"2", "five"};
  input.completion_ids = {{7}, {8, 9}};
  input.columns = {{"answer", {2, 4}}};
  input.state = {.global_step = 3, .max_steps = 100, .epoch = 0.5, .num_train_epochs = 1, .num_input_tokens_seen = 77};
  return input;
}

std::vector<RewardOutput> evaluate(const std::vector<RewardEntry>& entries, const RewardInput& input,
                                   double timeout = 60) {
  RewardFunctions functions({.functions = entries, .weights = {}, .timeout_seconds = timeout});
  return functions.evaluate(input);
}

struct Failure {
  std::string message, shown;
  bool is_input_error = false;
};

template <typename Body>
Failure failure_of(const Body& body) {
  Failure failure;
  failure.shown = capture([&] {
                    try {
                      body();
                    } catch (const InputError& error) {
                      failure.message = error.what();
                      failure.is_input_error = true;
                    } catch (const MachineError& error) {
                      failure.message = error.what();
                    }
                    return 0;
                  }).err;
  CHECK(failure.message.find('\n') == std::string::npos);
  return failure;
}

Failure failure_of_entry(const RewardEntry& entry, double timeout = 60) {
  return failure_of([&] { (void)evaluate({entry}, two_completions(), timeout); });
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// Whether the process is there and no zombie.
bool is_running(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  std::string text;
  return std::getline(file, text) && text.substr(text.rfind(')') + 2, 1) != "Z";
}

using Rewards = std::vector<std::optional<double>>;

}  // namespace

TEST_CASE("a Python function is called as TRL calls it") {
  const Workshop workshop;
  workshop.write("mine.py", R"(
def everything(prompts, completions, completion_ids, answer, trainer_state, log_extra, log_metric, **others):
    assert prompts == ["1 + 1?", "2 + 2?"] and completions == ["2", "five"] and completion_ids == [[7], [8, 9]], prompts
    assert answer == [2, 4] and not others, others
    assert (trainer_state.global_step, trainer_state.max_steps, trainer_state.epoch) == (3, 100, 0.5)
    assert (trainer_state.num_train_epochs, trainer_state.num_input_tokens_seen) == (1, 77)
    log_extra("read", [text.upper() for text in completions])
    log_metric("share", 1)
    log_metric("share", 2)
    return [True, None]

def few(completions, answer):
    return (float(text.isdigit() and int(text) == right) for text, right in zip(completions, answer))

class Deep:
    score = staticmethod(lambda prompts, **_: [float("nan"), 1e-3])

score = Deep.score
)");
  const auto outputs =
      evaluate({python("mine.everything"), python("mine.few"), python("mine.score")}, two_completions());
  CHECK(outputs[0].rewards == Rewards{1.0, {}});
  CHECK(outputs[0].extra == Json{{"read", {"2", "FIVE"}}});
  CHECK(outputs[0].metrics == std::vector<std::pair<std::string, double>>{{"share", 1.5}});
  CHECK(outputs[1].rewards == Rewards{1.0, 0.0});
  CHECK(outputs[2].rewards == Rewards{{}, 1e-3});
}

TEST_CASE("numbers may be any that Python takes for one") {
  const Workshop workshop;
  workshop.write("mine.py", R"(
import decimal, fractions

class Tensor:  # as NumPy's and torch's
    def __init__(self, value): self.value = value
    def __float__(self): return self.value
    def tolist(self): return self.value

def score(log_extra, **_):
    log_extra("column", [Tensor(0.5), {"deep": (float("inf"), float("nan"), Tensor([1]))}])
    return [Tensor(0.25), fractions.Fraction(1, 8)]
)");
  const auto outputs = evaluate({python("mine.score")}, two_completions());
  CHECK(outputs[0].rewards == Rewards{0.25, 0.125});
  CHECK(outputs[0].extra == Json::parse(R"({"column": [0.5, {"deep": ["inf", null, [1]]}]})"));
}

TEST_CASE("coroutines are awaited together, and their order does not matter") {
  const Workshop workshop;
  workshop.write("mine.py", R"(
import asyncio
met = []

async def first(completions):
    met.append("first")
    for _ in range(1000):
        if "second" in met: return [1, 1]
        await asyncio.sleep(0.01)

async def second(completions):
    met.append("second")
    return [2, 2]

def third(completions):
    return [3, 3]
)");
  const auto outputs = evaluate({python("mine.first"), python("mine.third"), python("mine.second")}, two_completions());
  CHECK(outputs[0].rewards == Rewards{1.0, 1.0});
  CHECK(outputs[1].rewards == Rewards{3.0, 3.0});
  CHECK(outputs[2].rewards == Rewards{2.0, 2.0});
}

TEST_CASE("what functions print is shown behind their names and is no answer") {
  const Workshop workshop;
  workshop.write("mine.py", R"(
import os, sys

def loud(completions):
    print("seen", len(completions))
    os.system("echo from a program")
    sys.stderr.write("half a line")
    return [1, 1]

def asking(completions):
    try:
        input()
    except EOFError:
        print("nobody answers")
    return [1, 1]
)");
  // One after the other: of functions that are asked together, what the next one prints may be read with the first
  // one's.
  const Captured captured = capture([] {
    for (const RewardEntry& entry :
         {python("mine.loud"), python("mine.asking"), shell("while read l; do echo said >&2; echo '[0, 0]'; done")})
      (void)evaluate({entry}, two_completions());
    return 0;
  });
  CHECK(captured.out.empty());
  for (const char* line : {"mine.loud: seen 2\n", "mine.loud: from a program\n", "mine.loud: half a line\n",
                           "mine.asking: nobody answers\n", "sh: said\n"}) {
    CAPTURE(captured.err);
    CHECK(has(captured.err, line));
  }
}

TEST_CASE("a function that raises is named with what it said and where") {
  const Workshop workshop;
  workshop.write("mine.py",
                 "import json\n\n\ndef score(completions):\n    return [json.loads(one) for one in completions]\n\n"
                 "def wants(prompts, missing):\n    return []\n\n"
                 "async def late(prompts):\n    raise KeyError('a')\n");
  const Failure raised = failure_of_entry(python("mine.score"));
  CHECK(raised.is_input_error);
  CHECK(raised.message ==
        "[trl.reward_funcs] mine.score raised json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0) "
        "(mine.py:5); correct it, its traceback is above");
  CHECK(has(raised.shown, "mine.score:   File"));
  CHECK(has(raised.shown, "line 5, in score"));
  CHECK(!has(raised.shown, "reward_child.py"));
  const Failure wants = failure_of_entry(python("mine.wants"));
  CHECK(has(wants.message,
            "mine.wants raised TypeError: wants() missing 1 required positional argument: 'missing' (mine.py:7)"));
  CHECK(has(failure_of_entry(python("mine.late")).message, "mine.late raised KeyError: 'a' (mine.py:11)"));
}

TEST_CASE("answers of Python functions that are no rewards are refused") {
  const Workshop workshop;
  const std::pair<const char*, const char*> kWrong[] = {
      {"[1]", "expected 2 rewards from mine.score, got 1; return a number or None for each completion"},
      {"[1, 2, 3]", "expected 2 rewards from mine.score, got 3;"},
      {"[1, 'two']", "expected a finite number or None from mine.score, got 'two' for completion 2 of 2;"},
      {"[1, [2]]", "got [2] for completion 2 of 2;"},
      {"[float('inf'), 1]", "expected a finite number or None from mine.score, got inf for completion 1 of 2;"},
      {"[1, -1e300]", "got '-1e+300' for completion 2 of 2;"},
      {"3", "mine.score raised TypeError: 'int' object is not iterable (mine.py:1)"},
      {"None", "mine.score raised TypeError: 'NoneType' object is not iterable"},
      {"log_extra('a', [1]) or [1, 1]", "expected 2 values of the extra column 'a' from mine.score, got 1;"},
      {"exit(3)", "expected an answer from mine.score, got none: it ended with exit status 3; see what it says above"}};
  for (const auto& [result, message] : kWrong) {
    CAPTURE(std::string(result));
    workshop.write("mine.py", fmt::format("def score(log_extra, **_): return {}\n", result));
    const Failure failure = failure_of_entry(python("mine.score"));
    CAPTURE(failure.message);
    CHECK(failure.is_input_error);
    CHECK(failure.message.starts_with("[trl.reward_funcs] "));
    CHECK(has(failure.message, message));
  }
}

TEST_CASE("a Python function that is not there is an error before the first call") {
  const Workshop workshop;
  workshop.write("mine.py", "thing = 3\ndef score(completions): return []\n");
  workshop.write("broken.py", "import no_such_module\n");
  const auto start = [](const std::string& name) {
    return failure_of([&] { const RewardFunctions functions({.functions = {python(name)}}); });
  };
  CHECK(start("mine.score").message.empty());
  CHECK(start("mind.score").message ==
        "[c.yml:1: trl.reward_funcs.0] expected a Python function mind.score, got ModuleNotFoundError: No module named "
        "'mind'; correct the name, or start where its module is");
  CHECK(has(start("mine.scor").message, "got AttributeError: module 'mine' has no attribute 'scor'"));
  CHECK(has(start("mine.thing").message, "got TypeError: mine.thing is no function"));
  const Failure broken = start("broken.score");
  CHECK(has(broken.message, "got ModuleNotFoundError: No module named 'no_such_module'"));
  CHECK(has(broken.shown, "broken.score:     import no_such_module"));
}

TEST_CASE("an interpreter that cannot run is an error before the first call") {
  const Workshop workshop;
  const auto start = [](const std::string& interpreter) {
    return failure_of([&] { const RewardFunctions functions({.functions = {python("a.b")}, .python = interpreter}); });
  };
  const Failure missing = start("no-such-python");
  CHECK(missing.is_input_error);
  CHECK(missing.message ==
        "[trl.reward_python] expected a program that can be run, got 'no-such-python' (No such file or directory); "
        "install it or correct the name");
  const Failure other = start("true");
  CHECK(has(other.message, "expected an answer from true, got none: it ended with exit status 0"));
  const Failure echo = start("echo");
  CHECK(has(echo.message, "[trl.reward_python] expected a line of JSON from Python, got '-c import json"));
}

TEST_CASE("math_verify is asked for before the first call") {
  const Workshop workshop;
  workshop.write("math_verify.py", "raise ModuleNotFoundError('No module named math_verify')\n");
  const Failure missing = failure_of(
      [] { const RewardFunctions functions({.functions = {{.name = "accuracy_reward", .where = "here"}}}); });
  CHECK(missing.is_input_error);
  CHECK(missing.message ==
        "[here] expected the Python package math_verify for accuracy_reward, got ModuleNotFoundError: No module named "
        "math_verify; run python3 -m pip install math-verify");
}

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
  const Workshop workshop;
  (void)evaluate({shell("read -r l; printf '%s' \"$l\" > request; echo '[1, 1]'")}, two_completions());
  CHECK(
      workshop.read("request") ==
      R"({"op":"rewards","id":1,"prompts":["1 + 1?","2 + 2?"],"completions":["2","five"],"completion_ids":[[7],[8,9]],)"
      R"("columns":{"answer":[2,4]},"trainer_state":{"global_step":3,"max_steps":100,"epoch":0.5,)"
      R"("num_train_epochs":1.0,"num_input_tokens_seen":77}})");
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
  const Workshop workshop;
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
  const Workshop workshop;
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
  const Workshop workshop;
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
  CHECK(evaluate({shell("exec <&-; echo '[1, 1]'; sleep 1")}, input)[0].rewards == Rewards{1.0, 1.0});
}

TEST_CASE("lines that are too long end the reading") {
  ChildProcess child({"sh", "-c", "head -c 100000 /dev/zero | tr '\\0' x; sleep 60"}, "here");
  CHECK(child.read_line(60, 1000).outcome == ChildProcess::Outcome::kTooLong);
}

TEST_CASE("bytes that are no text are answers of no function") {
  const Failure failure = failure_of_entry(shell("while read l; do printf '\\377\\000[1, 1]\\n'; done"));
  CHECK(has(failure.message, "expected a line of JSON from sh, got '\\xff"));
}

TEST_CASE("a child that is idle at the end may tidy up") {
  const Workshop workshop;
  (void)evaluate({shell("while read l; do echo '[1, 1]'; done; touch tidy")}, two_completions());
  CHECK(fs::exists("tidy"));
}

TEST_CASE("a model wants the engine, and is called like the others where it has one") {
  const RewardEntry model{.kind = RewardEntry::Kind::kModel, .name = "./judge", .where = "here"};
  const Failure failure = failure_of([&] { const RewardFunctions functions({.functions = {model}}); });
  CHECK(
      has(failure.message, "[here] expected a function, got the model './judge'; reward models are not yet supported"));
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
