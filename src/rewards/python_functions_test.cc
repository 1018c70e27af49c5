#include <doctest/doctest.h>

#include "base/clock.h"
#include "base/error.h"
#include "tests/support/captured.h"
#include "tests/support/outside_functions.h"
#include "tests/support/source_folder.h"
#include "tests/support/working_folder.h"

using namespace spillway;
using namespace spillway::rewards;
using namespace spillway::rewards::testing;
using spillway::testing::WorkingFolder;

TEST_CASE("a Python function is called as TRL calls it") {
  const WorkingFolder workshop;
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
  const WorkingFolder workshop;
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
  const WorkingFolder workshop;
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
  const WorkingFolder workshop;
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
  const Captured captured = capture([] {
    (void)evaluate(
        {python("mine.loud"), python("mine.asking"), shell("while read l; do echo said >&2; echo '[0, 0]'; done")},
        two_completions());
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
  const WorkingFolder workshop;
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
  const WorkingFolder workshop;
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
  const WorkingFolder workshop;
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
  const WorkingFolder workshop;
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
  const WorkingFolder workshop;
  workshop.write("math_verify.py", "raise ModuleNotFoundError('No module named math_verify')\n");
  const Failure missing = failure_of(
      [] { const RewardFunctions functions({.functions = {{.name = "accuracy_reward", .where = "here"}}}); });
  CHECK(missing.is_input_error);
  CHECK(missing.message ==
        "[here] expected the Python package math_verify for accuracy_reward, got ModuleNotFoundError: No module named "
        "math_verify; run python3 -m pip install math-verify");
}
