// Online training with the real program: what it leaves, and that a run in two parts leaves the same.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "io/file.h"
#include "tests/support/cache_folder.h"
#include "tests/support/online_command.h"
#include "tests/support/source_folder.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

// The phases of a round follow each other on both axes, and what is in memory is known at every point.
void check_round(const json& report) {
  const json &round = report.at("round"), &timeline = round.at("timeline");
  for (const char* clock : {"predicted", "measured"}) {
    CAPTURE(clock);
    double end = 0;
    for (const json& phase : round.at("phases")) {
      CHECK(phase.at(clock)[0].get<double>() == doctest::Approx(end));
      end += phase.at(clock)[1].get<double>();
    }
    CHECK(timeline.at(clock).at("seconds").get<double>() == doctest::Approx(end));
    for (const auto& [tier, curve] : round.at("memory").items()) {
      const json& times = curve.at(std::string(clock) + "_seconds");
      CHECK(std::is_sorted(times.begin(), times.end()));
      for (const auto& [kind, bytes] : curve.at("kinds").items()) CHECK(bytes.size() == times.size());
    }
  }
  CHECK(round.at("memory").at("device").at("kinds").contains("cache"));
  CHECK(timeline.at("instructions").size() > report.at("timeline").at("instructions").size());
}

std::string content(const fs::path& file) { return read_file(file, 1 << 24); }

}  // namespace

TEST_CASE("train leaves every completion, TRL's metrics and an adapter, in one part or in two") {
  for (const char* rl : {"grpo", "rloo"}) {
    CAPTURE(std::string(rl));
    const TemporaryFolder folder;
    const fs::path whole = folder.path() / "whole", parts = folder.path() / "parts";
    run_train(online_job(rl, whole), folder.path() / "whole.yml");
    const std::vector<json> completions = lines_of(whole / "completions.jsonl");
    REQUIRE(completions.size() == 8);  // two rounds of four
    CHECK(completions[5].at("generation") == 1);
    CHECK(completions[5].at("step") == 3);
    CHECK(completions[5].at("rewards").at("sh") == 0);
    CHECK(completions[7].at("rewards").at("sh").is_null());
    CHECK(completions[0].at("logprobs").size() == completions[0].at("completion_ids").size());
    const std::vector<json> steps = lines_of(whole / "metrics.jsonl");
    REQUIRE(steps.size() == 4);
    for (size_t i = 0; i < 4; ++i) CHECK(steps[i].contains("reward") == (i % 2 == 0));
    CHECK(steps[0].contains("kl"));
    const json report = json::parse(content(whole / "report.json"));
    CHECK(report.at("generation").at("rounds") == 2);
    // Each completion is trained on twice.
    double tokens = 0;
    for (const json& one : completions) tokens += 2.0 * (one.at("prompt_ids").size() + one.at("completion_ids").size());
    const double seconds = report.at("step").at("mean_seconds").get<double>() * report.at("steps").get<double>();
    CHECK(report.at("tokens_per_second").get<double>() * seconds == doctest::Approx(tokens));

    // The checkpoint lies in the middle of the second round.
    json first = online_job(rl, parts);
    first["max_steps"] = 3;
    run_train(first, folder.path() / "first.yml");
    run_train(online_job(rl, parts), folder.path() / "rest.yml", {"--auto_resume_from_checkpoints", "true"});
    CHECK(content(parts / "completions.jsonl") == content(whole / "completions.jsonl"));
    CHECK(content(parts / "adapter_model.safetensors") == content(whole / "adapter_model.safetensors"));
  }
}

TEST_CASE("the names of the last evaluation outlive the run that made them: in the model card and the report") {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  json job = online_job("grpo", out);
  job["test_datasets"] = job.at("datasets");
  job["trl"]["reward_funcs"].erase(1);
  run_train(job, folder.path() / "job.yml");
  const json last = lines_of(out / "metrics.jsonl").back();
  const std::string card = content(out / "README.md");
  const json report = json::parse(content(out / "report.json"));
  int64_t names = 0;
  for (const auto& [key, value] : last.items()) {
    if (!key.starts_with("eval_")) continue;
    CAPTURE(key);
    CHECK(card.find("| " + key + ", after step 4 |") != std::string::npos);
    CHECK(report.at("final_evaluation").at(key) == value);
    ++names;
  }
  CHECK(names > 5);
  CHECK(report.at("final_evaluation").size() == static_cast<size_t>(names));
}

TEST_CASE("the best evaluation of completions is not judged by a loss, which it does not have") {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  json job = online_job("grpo", out);
  job["test_datasets"] = job.at("datasets");
  job["eval_steps"] = 1;
  job["load_best_model_at_end"] = true;
  write_file(folder.path() / "job.yml", job.dump());
  const Finished run = run_spillway({"train", (folder.path() / "job.yml").string()});
  CAPTURE(run.err);
  CHECK(run.status == 2);
  CHECK(
      run.err.find("[metric_for_best_model] expected a number of an evaluation of completions, which has no loss, got "
                   "'loss'; write reward") != std::string::npos);
  CHECK_FALSE(fs::exists(out / "metrics.jsonl"));
}

TEST_CASE("completions that somebody has changed since are not overwritten") {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out", config = folder.path() / "job.yml";
  run_train(online_job("grpo", out), config);
  write_file(out / "completions.jsonl", "mine");
  const Finished again = run_spillway({"train", config.string()});
  CAPTURE(again.err);
  CHECK(again.status == 2);
  CHECK(again.err.find("'completions.jsonl' was changed") != std::string::npos);
  CHECK(content(out / "completions.jsonl") == "mine");
}

TEST_CASE("a round of completions without any reward is warned of once") {
  const TemporaryFolder folder;
  json none = online_job("grpo", folder.path() / "out");
  none["trl"]["reward_funcs"] = {{{"exec", {"sh", "-c", "while read line; do echo '[1, 0, null, null]'; done"}}}};
  write_file(folder.path() / "none.yml", none.dump());
  const Finished run = run_spillway({"train", (folder.path() / "none.yml").string()});
  CAPTURE(run.err);
  REQUIRE(run.status == 0);
  const std::string warning = "all reward functions returned None for 2 of 4 completions";
  const size_t at = run.err.find(warning);
  CHECK(at != std::string::npos);
  CHECK(run.err.find(warning, at + 1) == std::string::npos);
}

TEST_CASE("the operations of all programs of a job are measured in one go, and once") {
  const CacheFolder cache;
  const TemporaryFolder folder;
  write_file(folder.path() / "job.yml", online_job("grpo", folder.path() / "out").dump());
  const auto lines = [&] {
    const Finished run = run_spillway({"plan", (folder.path() / "job.yml").string()});
    CAPTURE(run.err);
    REQUIRE(run.status == 0);
    std::istringstream text(run.err);
    int64_t count = 0;
    for (std::string line; std::getline(text, line);) count += line.find("operations of this job, once") != line.npos;
    return count;
  };
  const auto known = [&] {
    std::set<std::string> names;
    const json machine = json::parse(content(cache.path() / "spillway/machine.json"));
    for (const auto& [name, seconds] : machine.at("operations").items()) names.insert(name);
    return names;
  };
  CHECK(lines() == 1);
  const std::set<std::string> first = known();
  CHECK(first.size() > 1);
  // Times from a busy machine may be measured again on a less busy one; no operation is left without a time.
  CHECK(lines() <= 1);
  CHECK(known() == first);
}

TEST_CASE("prompts of a round that fill a part of a run are predicted to take that part of its time") {
  const TemporaryFolder folder;
  json config = online_job("grpo", folder.path() / "out");
  config["memory"] = {{"plan", "fixed"}};
  write_file(folder.path() / "job.yml", config.dump());
  const auto seconds_for = [&](const char* completions_of_a_prompt) {
    const Finished run = run_spillway({"plan", (folder.path() / "job.yml").string(), "--json", "--machine",
                                       (source_folder() / "machines/desktop-cpu-64gb.json").string(),
                                       "--trl.num_generations", completions_of_a_prompt});
    CAPTURE(run.err);
    REQUIRE(run.status == 0);
    const json plan = json::parse(run.out);
    for (const json& phase : plan.at("generation").at("phases")) {
      if (phase.at("name") != "prompts") continue;
      CHECK(phase.at("runs") == 1);
      return phase.at("seconds").get<double>();
    }
    return 0.0;
  };
  // Four completions: of two prompts, or of one.
  CHECK(seconds_for("2") == doctest::Approx(2 * seconds_for("4")));
}

TEST_CASE("a plan says what a round of completions takes, and what generation and training need of each tier") {
  const TemporaryFolder folder;
  json config = online_job("grpo", folder.path() / "out");
  config["memory"] = {{"plan", "fixed"}};
  write_file(folder.path() / "job.yml", config.dump());
  const auto plan = [&](const std::vector<std::string>& more) {
    std::vector<std::string> args = {"plan", (folder.path() / "job.yml").string(), "--json"};
    args.insert(args.end(), more.begin(), more.end());
    const Finished run = run_spillway(args);
    CAPTURE(run.err);
    REQUIRE(run.status == 0);
    return json::parse(run.out);
  };
  const json resident = plan({});
  const json& generation = resident.at("generation");
  CHECK(generation.at("tokens") == 4 * 6);
  CHECK(generation.at("seconds") > 0);
  CHECK(generation.at("sequences_at_once") == 4);
  CHECK(generation.at("weights") == "resident");
  CHECK(generation.at("bytes_streamed") == 0);
  const json& device = resident.at("tiers").at("device");
  const int64_t generating = device.at("by_phase").at("generation"), training = device.at("by_phase").at("training");
  CHECK(generating >= generation.at("cache_bytes").get<int64_t>());
  CHECK(device.at("peak_bytes") == std::max(generating, training));
  double sum = 0, made = 0;
  for (const json& phase : generation.at("phases")) {
    const std::string name = phase.at("name");
    sum += phase.at("seconds").get<double>();
    if (name == "prompts" || name == "decoding" || name == "between tokens") made += phase.at("seconds").get<double>();
    if (name == "decoding") CHECK(phase.at("runs") == 6);
  }
  CHECK(made == doctest::Approx(generation.at("seconds").get<double>()));
  const double steps = 2;  // that are trained on a round
  CHECK(resident.at("step_seconds") == doctest::Approx(sum / steps));
  run_train(config, folder.path() / "run.yml");
  const json report = json::parse(content(folder.path() / "out/report.json"));
  check_round(report);
  CHECK(report.at("tiers").at("device").at("planned_peak_bytes") == device.at("peak_bytes"));
  CHECK(report.at("tiers").at("device").at("measured_peak_bytes") <= device.at("peak_bytes"));
  CHECK(report.at("generation").at("bytes_streamed") == 0);

  const std::vector<std::string> elsewhere = {"--parameter_offload", "host", "--trl.ds3_gather_for_generation"};
  const auto generation_with = [&](const char* gathers) {
    std::vector<std::string> keys = elsewhere;
    keys.emplace_back(gathers);
    return plan(keys).at("generation");
  };
  const json streamed = generation_with("false"), gathered = generation_with("true");
  CHECK(streamed.at("weights") == "streamed");
  CHECK(gathered.at("weights") == "resident");
  CHECK(gathered.at("bytes_streamed") > 0);
  CHECK(streamed.at("bytes_streamed") > gathered.at("bytes_streamed"));
}
