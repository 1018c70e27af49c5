// Online training that goes on from a checkpoint, with the real program: later, elsewhere, or by another config.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/temporary_folder.h"
#include "tests/support/online_command.h"

using namespace spillway;
using namespace spillway::testing;
using Json = nlohmann::json;
namespace fs = std::filesystem;

namespace {

const std::vector<std::string> kResumeOnline = {"--auto_resume_from_checkpoints", "true"};

}  // namespace

TEST_CASE("an online run whose template shows the date goes on another day with the prompts that it began with") {
  const TemporaryFolder folder;
  std::string prompts;
  for (int i = 0; i < 12; ++i)
    prompts += Json{{"prompt", {{{"role", "user"}, {"content", std::to_string(i)}}}}}.dump() + "\n";
  write_file(folder.path() / "prompts.jsonl", prompts);
  write_file(folder.path() / "dated.jinja",
             "{{ strftime_now('%Y-%m-%d') }} {% for m in messages %}{{ m.content }} {% endfor %}");
  // Zones that are 26 hours apart never have the same date.
  const auto train = [&](const char* zone, const char* name, int steps, const std::vector<std::string>& more = {}) {
    Json config = online_job("grpo", folder.path() / name);
    config["datasets"] = {{{"path", (folder.path() / "prompts.jsonl").string()}}};
    config["chat_template_jinja"] = (folder.path() / "dated.jinja").string();
    config["max_steps"] = steps;
    setenv("TZ", zone, 1);
    run_train(config, folder.path() / "c.yml", more);
    unsetenv("TZ");
  };
  train("AAA+12", "whole", 4);
  train("AAA+12", "out", 2);
  train("BBB-14", "out", 4, kResumeOnline);
  const auto completions = [&](const char* name) {
    return read_file(folder.path() / name / "completions.jsonl", 1 << 20);
  };
  CHECK(completions("out") == completions("whole"));
  train("BBB-14", "again", 4);
  CHECK(completions("again") != completions("whole"));
}

TEST_CASE("a round that a checkpoint has the middle of is made anew where rounds have another size") {
  const TemporaryFolder folder;
  Json config = online_job("grpo", folder.path() / "out");
  config["trl"]["reward_funcs"] = {{{"name", "get_repetition_penalty_reward"}, {"ngram_size", 1}}};
  config["max_steps"] = 1;
  run_train(config, folder.path() / "c.yml");
  // As many steps an epoch as before.
  config["trl"]["steps_per_generation"] = 2;
  config["max_steps"] = 4;
  run_train(config, folder.path() / "c.yml", kResumeOnline);
  const std::vector<Json> completions = lines_of(folder.path() / "out/completions.jsonl");
  // Four completions of step 1, and the eight of a round of the new size.
  REQUIRE(completions.size() == 12);
  for (size_t i = 4; i < 12; ++i) {
    CHECK(completions[i].at("step") == 2);
    CHECK(completions[i].at("generation") == 0);
  }
}

TEST_CASE(
    "an evaluation has num_generations_eval completions, and tells reward functions the step of a run that goes on") {
  const TemporaryFolder folder;
  Json config = online_job("grpo", folder.path() / "out");
  const fs::path requests = folder.path() / "requests";
  const std::string script = "while read -r line; do printf '%s\\n' \"$line\" >> " + requests.string() +
                             "; printf '%s\\n' \"$line\" | sed 's/.*\"completion_ids\":\\[//; s/\\],\"columns\".*//; "
                             "s/\\[[0-9,]*\\]/1/g; s/^/[/; s/$/]/'; done";
  config["trl"]["reward_funcs"] = {{{"exec", {"sh", "-c", script}}}};
  config["trl"]["num_generations_eval"] = 3;
  config["val_set_size"] = 2;
  config["eval_steps"] = 2;
  config["save_steps"] = 2;
  config["max_steps"] = 3;
  config["load_best_model_at_end"] = true;
  config["metric_for_best_model"] = "eval_reward";
  config["greater_is_better"] = true;
  run_train(config, folder.path() / "c.yml");
  const auto last_state = [&] { return lines_of(requests).back().at("trainer_state"); };
  const Json state = last_state();
  CHECK(state.at("global_step") == 3);
  CHECK(lines_of(requests).front().at("completion_ids").size() == 4);
  CHECK(lines_of(requests).back().at("completion_ids").size() == 2 * 3);
  fs::remove(requests);
  run_train(config, folder.path() / "c.yml", kResumeOnline);
  CHECK(last_state() == state);
}
