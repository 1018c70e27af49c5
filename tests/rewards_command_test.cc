// `spillway rewards` as a user runs it.
#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "tests/support/patience.h"
#include "tests/support/process.h"
#include "tests/support/source_folder.h"
#include "tests/support/working_folder.h"

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

// With completions, and a config for functions.
class Workplace : public WorkingFolder {
 public:
  Workplace() {
    write("lines.jsonl", R"({"prompt": "a", "completion": "b", "completion_ids": [1, 2]})"
                         "\n");
  }
  // The command line for a config of these functions.
  [[nodiscard]] std::vector<std::string> command(const std::string& functions) const {
    write("c.yml", "trl: {reward_funcs: [" + functions + "]}\n");
    return {"rewards", "c.yml", "--lines", "lines.jsonl", "--json-lines"};
  }
};

std::vector<json> printed_lines(const std::string& text) {
  std::vector<json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(json::parse(line));
  return lines;
}

// The process that wrote its number into a file.
std::string await_pid(const char* file) {
  std::string pid;
  (void)comes_true([&] {
    std::ifstream stream(file);
    return std::getline(stream, pid) && !stream.eof();  // else the line is not complete
  });
  return pid;
}

bool ends(const std::string& pid) {
  return comes_true([&] {
    std::ifstream file("/proc/" + pid + "/stat");
    std::string text;
    return !std::getline(file, text) || text.substr(text.rfind(')') + 2, 1) == "Z";
  });
}

}  // namespace

TEST_CASE("the example of reward functions scores its completions") {
  const Workplace workplace;
  fs::current_path(source_folder() / "examples");
  const Finished result = run_spillway({"rewards", "rewards.yml", "--lines", "data/sums.jsonl", "--json-lines"});
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  const std::vector<json> lines = printed_lines(result.out);
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] ==
        json::parse(R"({"rewards": {"right_sum": 1.0, "soft_overlong_punishment_reward": 0.0}, "reward": 1.0,
                                    "extra": {}})"));
  CHECK(lines[1]["rewards"]["right_sum"] == 0);
  CHECK(lines[2]["rewards"]["right_sum"] == 1);
  CHECK(lines[2]["rewards"]["soft_overlong_punishment_reward"].get<double>() == doctest::Approx(-5.0 / 12));
  CHECK(lines[2]["reward"].get<double>() == doctest::Approx(1 - 0.2 * 5 / 12));
}

TEST_CASE("lines may have different columns, and a reward that is none is null") {
  const Workplace workplace;
  workplace.write("mine.py", R"(
def score(completions, completion_ids, kind, other, log_extra, log_metric):
    log_extra("kinds", kind)
    log_metric("known", 0.5)
    return [None if one is None else len(ids) for one, ids in zip(kind, completion_ids)]
)");
  workplace.write("tokenizer.json", R"({"model": {"type": "WordLevel", "unk_token": "u", "vocab": {"u": 0, "a": 1}},
                                       "pre_tokenizer": {"type": "WhitespaceSplit"}})");
  workplace.write("lines.jsonl", R"({"prompt": "a", "completion": "a a a", "kind": "x"}

{"prompt": [{"role": "user", "content": "a"}], "completion": [{"role": "assistant", "content": "a a"}], "other": 3}
)");
  std::vector<std::string> command = workplace.command("mine.score");
  command.insert(command.end(), {"--base_model", fs::current_path().string()});
  const Finished result = run_spillway(command);
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  const std::vector<json> lines = printed_lines(result.out);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] == json::parse(R"({"rewards": {"score": 3.0}, "reward": 3.0, "extra": {"kinds": "x"}})"));
  CHECK(lines[1] == json::parse(R"({"rewards": {"score": null}, "reward": null, "extra": {"kinds": null}})"));
  CHECK(result.err.find("known: 0.5\n") != std::string::npos);
}

TEST_CASE("lines that are no completions are named") {
  const Workplace workplace;
  const std::pair<const char*, const char*> kWrong[] = {
      {"[]", "[lines.jsonl:1] expected a JSON object, got something else"},
      {"{", "[lines.jsonl:1] expected a JSON object, got something else"},
      {R"({"prompt": "a"})", "[lines.jsonl:1] expected a text or a list of messages as completion, got none"},
      {R"({"prompt": 3, "completion": "a"})", "as prompt, got something else"},
      {R"({"prompt": "a", "completion": [{}]})", "as completion, got something else"},
      {R"({"prompt": "a", "completion": "a", "completion_ids": [-1]})",
       "expected a list of token ids as completion_ids"},
      {R"({"prompt": "a", "completion": "a"})", "expected completion_ids, or base_model in the config, got neither"}};
  for (const auto& [line, message] : kWrong) {
    CAPTURE(std::string(line));
    workplace.write("lines.jsonl", std::string(line) + "\n");
    const Finished result = run_spillway(workplace.command("think_format_reward"));
    CAPTURE(result.err);
    CHECK(result.status == 2);
    CHECK(result.out.empty());
    CHECK(result.err.find(message) != std::string::npos);
  }
}

TEST_CASE("what functions do wrong is wrong input, what kills them the machine's failure") {
  const Workplace workplace;
  workplace.write("mine.py", "def score(completions):\n    raise ValueError('no number')\n");
  const Finished raised = run_spillway(workplace.command("mine.score"));
  CHECK(raised.status == 2);
  CHECK(
      raised.err.ends_with("[trl.reward_funcs] mine.score raised ValueError: no number (mine.py:2); correct it, its "
                           "traceback is above\n"));
  CHECK(raised.err.find("mine.score: ValueError: no number\n") != std::string::npos);
  CHECK(run_spillway(workplace.command("{exec: [sh, -c, 'read l; kill -11 $$']}")).status == 3);
  std::vector<std::string> late = workplace.command("{exec: [sleep, '60']}");
  late.insert(late.end(), {"--trl.reward_timeout", "0.2"});
  CHECK(run_spillway(late).status == 2);
}

TEST_CASE("no child outlives the program, however that ends") {
  const Workplace workplace;
  workplace.write(
      "mine.py",
      "import os, time\n\ndef score(completions):\n    with open('pid', 'w') as file: print(os.getpid(), file=file)\n"
      "    time.sleep(600)\n");
  for (const int signal : {SIGINT, SIGTERM, SIGKILL}) {
    CAPTURE(signal);
    Process process(workplace.command("mine.score"));
    const std::string pid = await_pid("pid");
    REQUIRE(!pid.empty());
    process.signal(signal);
    const Finished result = process.wait();
    CHECK(result.status == (signal == SIGKILL ? 128 + SIGKILL : 130));
    CHECK(ends(pid));
    fs::remove("pid");
  }
}
