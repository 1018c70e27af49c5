// Folders of reward models as reward functions, with the real program.
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "io/file.h"
#include "tests/support/preference_run.h"
#include "tests/support/process.h"
#include "tests/support/source_folder.h"
#include "tests/support/working_folder.h"

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

fs::path llama() { return preference_goldens() / "reward_model"; }
fs::path qwen3() { return source_folder() / "tests/golden/rewards/model_qwen3"; }

json reward_goldens() { return json::parse(read_file(source_folder() / "tests/golden/rewards/models.json", 1 << 20)); }

std::vector<json> json_lines(const std::string& text) {
  std::vector<json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(json::parse(line));
  return lines;
}

// Returns the scores of lines by reward models, as `spillway rewards` prints them.
Finished reward_score(const WorkingFolder& folder, const std::vector<fs::path>& models, const json& lines) {
  std::string text;
  for (json line : lines) {
    line["completion_ids"] = {1};
    text += line.dump() + "\n";
  }
  json functions = json::array();
  for (const fs::path& model : models) functions.push_back(model.string());
  folder.write("lines.jsonl", text);
  folder.write("c.yml", json{{"reward_funcs", functions}}.dump());
  return run_spillway({"rewards", "c.yml", "--lines", "lines.jsonl", "--json-lines"});
}

// A copy of a model with changes to its config.
fs::path changed_model(const fs::path& from, const char* name, const json& changes) {
  const fs::path to = fs::current_path() / name;
  fs::copy(from, to);
  json config = json::parse(read_file(to / "config.json", 1 << 20));
  config.update(changes);
  write_file(to / "config.json", config.dump());
  return to;
}

// A job of GRPO with its completions written down; `plan` prints its plan.
json online_config(const json& functions, const json& changes) {
  const fs::path reward_goldens = source_folder() / "tests/golden/online_rl";
  json config = {{"base_model", (preference_goldens() / "model").string()},
                 {"rl", "grpo"},
                 {"datasets", {{{"path", (reward_goldens / "prompts.jsonl").string()}}}},
                 {"micro_batch_size", 4},
                 {"num_generations", 4},
                 {"max_completion_length", 10},
                 {"learning_rate", 1e-3},
                 {"bf16", false},
                 {"max_steps", 2},
                 {"save_strategy", "no"},
                 {"log_completions", true},
                 {"output_dir", (fs::current_path() / "out").string()},
                 {"reward_funcs", functions}};
  config.update(changes);
  return config;
}

}  // namespace

TEST_CASE("what reward models say of completions is what TRL's trainer makes of them") {
  const WorkingFolder folder;
  const json golden = reward_goldens();
  const Finished result = reward_score(folder, {llama(), qwen3()}, golden["lines"]);
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  const std::vector<json> lines = json_lines(result.out);
  REQUIRE(lines.size() == golden["lines"].size());
  for (const char* name : {"reward_model", "model_qwen3"}) {
    for (size_t i = 0; i < lines.size(); ++i) {
      CAPTURE(i);
      CHECK(std::abs(lines[i]["rewards"][name].get<double>() - golden["rewards"][name][i].get<double>()) < 1e-4);
    }
  }
}

TEST_CASE("what a reward model says of a completion does not depend on others beside it") {
  const WorkingFolder folder;
  const json lines = reward_goldens()["lines"];
  const std::vector<json> together = json_lines(reward_score(folder, {qwen3()}, lines).out);
  REQUIRE(together.size() == lines.size());
  json reversed = json::array();
  for (size_t i = lines.size(); i-- > 0;) reversed.push_back(lines[i]);
  const std::vector<json> backwards = json_lines(reward_score(folder, {qwen3()}, reversed).out);
  for (size_t i = 0; i < lines.size(); ++i) {
    CHECK(json_lines(reward_score(folder, {qwen3()}, json::array({lines[i]})).out) == std::vector<json>{together[i]});
    CHECK(backwards[lines.size() - 1 - i] == together[i]);
  }
}

TEST_CASE("a completion without any token has no reward of a model") {
  const WorkingFolder folder;
  const Finished result = reward_score(folder, {llama()}, json::array({{{"prompt", ""}, {"completion", ""}}}));
  REQUIRE(result.status == 0);
  CHECK(json_lines(result.out)[0]["rewards"]["reward_model"].is_null());
  CHECK(result.err.find("1 of 1 completions have no reward") != std::string::npos);
}

TEST_CASE("folders that are no reward models are refused in one line") {
  const WorkingFolder folder;
  const fs::path many = changed_model(llama(), "many", {{"id2label", {{"0", "a"}, {"1", "b"}}}}),
                 small = changed_model(llama(), "small", {{"vocab_size", 400}}),
                 wordless = changed_model(llama(), "wordless", json::object());
  fs::remove(wordless / "tokenizer.json");
  const fs::path adapter = preference_goldens() / "adapter_reward";
  const std::pair<fs::path, const char*> kWrong[] = {
      {preference_goldens() / "model", "that predicts tokens; name a folder that reward_model: true has written"},
      {preference_goldens() / "step_model", "that scores steps"},
      {many, "expected a classifier of one label, which is a score, got 2"},
      {small, "expected a tokenizer of at most 400 tokens"},
      {adapter, "which is an adapter; make a model of it with `spillway merge`"},
      {"./nowhere", "expected a folder with config.json, got './nowhere'"},
      {wordless, "tokenizer.json"}};
  for (const auto& [model, message] : kWrong) {
    CAPTURE(message);
    const Finished result = reward_score(folder, {model}, json::array({{{"prompt", "a"}, {"completion", "b"}}}));
    CAPTURE(result.err);
    CHECK(result.status == 2);
    CHECK(result.err.find(message) != std::string::npos);
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
    folder.write("train.yml", online_config({model.string()}, json::object()).dump());
    const Finished trained = run_spillway({"train", "train.yml"});
    CHECK(trained.status == 2);
    CHECK(trained.err.find(message) != std::string::npos);
    CHECK_FALSE(fs::exists("out/metrics.jsonl"));
  }
}

TEST_CASE("training scores its completions as the command does, wherever the plan has the models' weights") {
  const WorkingFolder folder;
  const std::pair<const char*, json> kPlans[] = {
      {"all on the device", json::object()},
      {"weights on the host", {{"parameter_offload", "host"}, {"device", "cpu"}}},
      {"weights on the disk", {{"parameter_offload", "disk"}}},
      {"an adapter", {{"adapter", "lora"}, {"lora_r", 4}, {"lora_target_linear", true}}},
      {"an adapter, its base on the disk",
       {{"adapter", "lora"}, {"lora_r", 4}, {"lora_target_linear", true}, {"parameter_offload", "disk"}}}};
  for (const auto& [name, changes] : kPlans) {
    CAPTURE(name);
    const json functions = {llama().string(), "get_repetition_penalty_reward", qwen3().string(), llama().string()};
    folder.write("train.yml", online_config(functions, changes).dump());
    fs::remove_all("out");
    const Finished trained = run_spillway({"train", "train.yml"});
    CAPTURE(trained.err);
    REQUIRE(trained.status == 0);
    json lines = json::array();
    for (const json& line : json_lines(read_file("out/completions.jsonl", 1 << 20))) lines.push_back(line);
    REQUIRE(lines.size() == 8);
    const std::vector<json> said = json_lines(reward_score(folder, {llama(), qwen3()}, lines).out);
    REQUIRE(said.size() == lines.size());
    for (size_t i = 0; i < lines.size(); ++i) {
      for (const char* model : {"reward_model", "model_qwen3"}) {
        CHECK(lines[i]["rewards"][model].get<float>() == said[i]["rewards"][model].get<float>());
      }
      CHECK(lines[i]["rewards"]["reward_model_2"] == lines[i]["rewards"]["reward_model"]);
    }
    const json metrics = json_lines(read_file("out/metrics.jsonl", 1 << 20))[0];
    CHECK(metrics.contains("rewards/reward_model/mean"));
    CHECK(metrics.contains("rewards/model_qwen3/std"));
  }
}

TEST_CASE("a run goes on with the reward models that it began with, wherever they lie, and with no others") {
  const WorkingFolder folder;
  const fs::path first = changed_model(llama(), "first", json::object());
  const auto train = [&](const json& functions, int steps) {
    folder.write("train.yml", online_config(functions, {{"max_steps", steps},
                                                        {"save_strategy", "steps"},
                                                        {"save_steps", 1},
                                                        {"auto_resume_from_checkpoints", true}})
                                  .dump());
    return run_spillway({"train", "train.yml"});
  };
  REQUIRE(train({first.string()}, 1).status == 0);
  const auto is_refused = [&](const json& functions, const std::string& message) {
    const Finished result = train(functions, 2);
    CAPTURE(result.err);
    CHECK(result.status == 2);
    CHECK(result.err.find(message) != std::string::npos);
  };
  is_refused({qwen3().string()}, "expected the reward model that");
  is_refused({first.string(), qwen3().string()}, "expected the 1 reward models that");
  is_refused({"get_repetition_penalty_reward"}, "got 0; resume with those that the run began with");
  CHECK_FALSE(fs::exists("out/checkpoint-2"));
  // The location of a model is not part of its identity.
  fs::rename(first, "second");
  CHECK(train({(fs::current_path() / "second").string()}, 2).status == 0);
  // Its weights are.
  fs::path changed = fs::current_path() / "second/model.safetensors";
  std::string bytes = read_file(changed, 1 << 24);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file(changed, bytes);
  const Finished result = train({(fs::current_path() / "second").string()}, 3);
  CAPTURE(result.err);
  CHECK(result.status == 2);
  CHECK(result.err.find("with other values in") != std::string::npos);
}

TEST_CASE("the plan of a job has the bytes of its reward models") {
  const WorkingFolder folder;
  const auto planned = [&](const json& functions) {
    folder.write("plan.yml", online_config(functions, json::object()).dump());
    const Finished result = run_spillway({"plan", "plan.yml", "--json", "--gpu", "h200"});
    CAPTURE(result.err);
    REQUIRE(result.status == 0);
    return json::parse(result.out);
  };
  const json without = planned({"think_format_reward"}), with = planned({llama().string()});
  const auto bytes_of = [](const json& plan) { return plan["tiers"]["device"]["peak_bytes"].get<int64_t>(); };
  const auto weights = static_cast<int64_t>(fs::file_size(llama() / "model.safetensors"));
  CHECK(bytes_of(with) - bytes_of(without) > 0.9 * static_cast<double>(weights));
  CHECK(run_spillway({"plan", "plan.yml"}).out.find("the reward model reward_model") != std::string::npos);
}
