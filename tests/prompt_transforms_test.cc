// Rows of prompts that a user's Python function makes, with the real program.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "io/file.h"
#include "tests/support/preference_run.h"
#include "tests/support/process.h"
#include "tests/support/working_folder.h"

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

// Trains a step on questions, whose rows `mine.FUNCTION` makes.
Finished trained(const WorkingFolder& folder, const std::string& function, const json& changes = json::object()) {
  std::string rows;
  for (int i = 0; i < 6; ++i)
    rows += json{{"question", "What is " + std::to_string(i) + "?"}, {"answer", i}, {"noise", "x"}}.dump() + "\n";
  folder.write("questions.jsonl", rows);
  json config = {{"base_model", (preference_goldens() / "model").string()},
                 {"rl", "grpo"},
                 {"datasets", {{{"path", "questions.jsonl"}, {"type", function}}}},
                 {"micro_batch_size", 4},
                 {"num_generations", 2},
                 {"max_completion_length", 4},
                 {"learning_rate", 1e-3},
                 {"bf16", false},
                 {"max_steps", 1},
                 {"save_strategy", "no"},
                 {"curriculum_sampling", true},
                 {"log_completions", true},
                 {"output_dir", "out"},
                 {"trl", {{"reward_funcs", {"mine.score"}}}}};
  config.update(changes);
  folder.write("c.yml", config.dump());
  return run_spillway({"train", "c.yml"});
}

constexpr const char* kFunctions = R"(
def score(completions, answer, **kwargs):
    assert "noise" not in kwargs and "question" not in kwargs, kwargs
    return [float(one) for one in answer]

def make(cfg):
    assert cfg.learning_rate == 1e-3 and cfg["rl"] == "grpo" and cfg.trl.reward_funcs == ["mine.score"]
    assert cfg.nothing is None and cfg.get("nothing") is None
    def change(row, tokenizer=None):
        return {"prompt": "Q: " + row["question"] + " A:"}
    return change, {"remove_columns": ["question", "noise"]}

def plain(cfg):
    return lambda row: {"prompt": [{"role": "user", "content": row.pop("question")}], "noise": row["answer"]}

def wrong(cfg):
    def change(row):
        raise KeyError("no such column")
    return change

def fewer(cfg):
    return lambda row: {"other": 1}

def seven(completions, **kwargs):
    return [float(one) for one in kwargs["noise"]]
)";

}  // namespace

TEST_CASE("a function of the user's makes rows of prompts, without the columns that it removes") {
  const WorkingFolder folder;
  folder.write("mine.py", kFunctions);
  const Finished result = trained(folder, "mine.make");
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  std::istringstream lines(folder.read("out/completions.jsonl"));
  std::vector<json> completions;
  for (std::string line; std::getline(lines, line);) completions.push_back(json::parse(line));
  REQUIRE(completions.size() == 4);
  CHECK(completions[0]["prompt"] == "Q: What is 0? A:");
  CHECK(completions[2]["prompt"] == "Q: What is 1? A:");
  CHECK(completions[2]["rewards"]["score"] == 1.0);
}

TEST_CASE("such a function may return messages, and what it returns replaces the record's columns") {
  const WorkingFolder folder;
  folder.write("mine.py", kFunctions);
  const Finished result = trained(folder, "mine.plain", {{"trl", {{"reward_funcs", {"mine.seven"}}}}});
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  const json first =
      json::parse(folder.read("out/completions.jsonl").substr(0, folder.read("out/completions.jsonl").find('\n')));
  CHECK(first["prompt"] == json{{{"role", "user"}, {"content", "What is 0?"}}});
  CHECK(first["rewards"]["seven"] == 0.0);
}

TEST_CASE("what such a function does wrong ends the run before any weight is read") {
  const WorkingFolder folder;
  folder.write("mine.py", kFunctions);
  const std::pair<const char*, const char*> kWrong[] = {
      {"mine.wrong", "[datasets: type: mine.wrong] mine.wrong raised KeyError: 'no such column' (mine.py:18)"},
      {"mine.nothing", "expected a Python function mine.nothing as type, got AttributeError"},
      {"nowhere.make", "expected a Python function nowhere.make as type, got ModuleNotFoundError"},
      {"mine.fewer", "[questions.jsonl:1]"}};
  for (const auto& [function, message] : kWrong) {
    CAPTURE(function);
    const Finished result = trained(folder, function);
    CAPTURE(result.err);
    CHECK(result.status == 2);
    CHECK(result.err.find(message) != std::string::npos);
  }
}

TEST_CASE("such a function is called once where a search is made for what would fit") {
  const WorkingFolder folder;
  folder.write("mine.py", std::string(kFunctions) + R"(
def counted(cfg):
    with open("calls", "a") as calls:
        calls.write("x")
    return make(cfg)
)");
  const Finished result = trained(folder, "mine.counted", {{"memory", {{"device", "1MiB"}}}});
  CAPTURE(result.err);
  CHECK(result.status == 2);
  CHECK(result.err.find("[memory.device] expected at least ") != std::string::npos);
  CHECK(folder.read("calls") == "x");
}
