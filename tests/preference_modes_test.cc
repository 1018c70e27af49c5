// A plan changes no bit of preference training, reference passes included; nor does a run that is cut in two, nor where
// the reference comes from.
#include <doctest/doctest.h>

#include <cmath>
#include <iterator>

#include "io/file.h"
#include "tests/support/pairing.h"
#include "tests/support/preference_run.h"

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;

namespace {

using Change = config::ConfigOverride;
using Changes = std::vector<Change>;

Changes with_preferences(Changes changes, const Changes& more) {
  changes.insert(changes.end(), more.begin(), more.end());
  return changes;
}

constexpr const char* kCases[] = {"dpo_sigmoid_full", "dpo_weighting_lora", "dpo_sigmoid_continued", "dpo_sync_full",
                                  "kto_kto_full",     "dpo_other_lora",     "dpo_other_full",        "kto_kto_lora",
                                  "orpo_lora",        "simpo_alpha1_lora",  "reward_full",           "reward_lora",
                                  "process_full",     "process_lora"};

std::string weights_of(const config::Config& config) {
  const char* const file = config.adapter ? "adapter_model.safetensors" : "model.safetensors";
  return read_file(fs::path(config.output.output_dir) / file, 1 << 24);
}

struct PreferenceOutcome {
  std::vector<std::map<std::string, double>> steps;
  std::string weights;

  bool operator==(const PreferenceOutcome&) const = default;
};

PreferenceOutcome preference_outcome(const std::string& name, const fs::path& folder, const Changes& changes) {
  const config::Config config = preference_config(name, folder, changes);
  return {run_preference(config).steps, weights_of(config)};
}

// Returns the changes that give the job as little device memory as the planner can make it run in.
Changes least_memory(const std::string& name, const fs::path& folder) {
  Changes changes = {{"memory.device", "1"}, {"memory.host", "16MiB"}, {"memory.disk", "64MiB"}};
  const int64_t least = device_bytes_of(preference_config(name, folder, changes));
  changes.front().value = std::to_string(least);
  return changes;
}

}  // namespace

TEST_CASE("a plan changes no bit of preference training") {
  const std::vector<Changes> plans = {
      {{"gradient_checkpointing", "true"}},
      {{"activation_offloading", "true"}},
      {{"activation_offloading", "disk"}},
      {{"parameter_offload", "host"}},
      {{"micro_batch_order", "vertical"}, {"parameter_offload", "host"}},
      {{"parameter_offload", "disk"}, {"optimizer_offload", "disk"}, {"gradient_checkpointing", "true"}},
      {}};  // the least memory that there is a plan for
  for (size_t i = 0; i < std::size(kCases); ++i) {
    const char* const name = kCases[i];
    CAPTURE(name);
    const TemporaryFolder folder;
    const PreferenceOutcome plain = preference_outcome(name, folder.path() / "plain", {{"memory.plan", "fixed"}});
    for (size_t j = 0; j < plans.size(); ++j) {
      if (!is_paired(i, j, plans.size(), 4)) continue;
      Changes changes = plans[j];
      if (changes.empty()) changes = least_memory(name, folder.path() / "other");
      CAPTURE(changes.front().key);
      CAPTURE(changes.front().value);
      CHECK(preference_outcome(name, folder.path() / "other", changes) == plain);
    }
  }
}

TEST_CASE("preferences are learned by feed-forward parts in tiles as by whole ones, and no plan changes a bit of it") {
  const Changes tiles = {{"tiled_mlp", "true"}, {"tiled_mlp_num_shards", "3"}};
  for (const char* name : {"dpo_sigmoid_full", "kto_kto_lora", "reward_lora"}) {
    CAPTURE(name);
    const TemporaryFolder folder;
    const auto outcome = [&](const Changes& changes) {
      return preference_outcome(name, folder.path() / "out", changes);
    };
    const PreferenceOutcome whole = outcome({{"memory.plan", "fixed"}}), tiled = outcome(tiles);
    REQUIRE(tiled.steps.size() == whole.steps.size());
    CHECK(tiled.steps.front().at("loss") == whole.steps.front().at("loss"));
    for (size_t i = 0; i < whole.steps.size(); ++i)
      CHECK(tiled.steps[i].at("loss") == doctest::Approx(whole.steps[i].at("loss")).epsilon(1e-4));
    CHECK(outcome(with_preferences(tiles, {{"gradient_checkpointing", "true"}, {"parameter_offload", "host"}})) ==
          tiled);
  }
}

// The changes for adapters that are trained further, so that dropout matters from the first step.
const Changes kDropout = {{"lora_dropout", "0.3"}, {"disable_dropout", "false"}};
constexpr const char* kDropped[] = {"dpo_sigmoid_continued", "kto_kto_continued", "orpo_lora", "reward_lora"};

TEST_CASE("a plan changes no bit of preference training with dropout, nor does a stop") {
  for (const char* name : kDropped) {
    CAPTURE(name);
    const TemporaryFolder folder;
    const PreferenceOutcome plain =
        preference_outcome(name, folder.path() / "plain", with_preferences(kDropout, {{"memory.plan", "fixed"}}));
    CHECK(plain.weights != preference_outcome(name, folder.path() / "none", {}).weights);
    for (const Changes& changes : std::vector<Changes>{{{"gradient_checkpointing", "true"}},
                                                       {{"activation_offloading", "disk"}},
                                                       {{"parameter_offload", "disk"}, {"optimizer_offload", "disk"}}})
      CHECK(preference_outcome(name, folder.path() / "other", with_preferences(kDropout, changes)) == plain);
    const fs::path cut = folder.path() / "cut";
    (void)preference_outcome(
        name, cut, with_preferences(kDropout, {{"max_steps", "3"}, {"save_strategy", "steps"}, {"save_steps", "3"}}));
    const Changes rest = with_preferences(kDropout, {{"resume_from_checkpoint", (cut / "checkpoint-3").string()}});
    CHECK(preference_outcome(name, cut, rest).weights == plain.weights);
  }
}

TEST_CASE("what is scored without training has no dropout: the reference, and evaluations") {
  const TemporaryFolder folder;
  const double beta = 0.2;  // of the case
  const Changes evaluated = {
      {"val_set_size", "4"}, {"max_steps", "5"}, {"eval_strategy", "steps"}, {"eval_steps", "1"}};
  const auto run = [&](const Changes& changes) {
    return run_preference(
        preference_config("dpo_sigmoid_continued", folder.path() / "out", with_preferences(evaluated, changes)));
  };
  // A reward is beta times what lies between policy and reference, which never changes.
  const auto reference = [&](const std::map<std::string, double>& step) {
    return step.at("logps/chosen") - step.at("rewards/chosen") / beta;
  };
  const PreferenceRun plain = run({}), dropped = run(kDropout);
  REQUIRE(plain.steps.size() == 5);
  REQUIRE(dropped.steps.size() == 5);
  for (size_t step = 0; step < 5; ++step) {
    CAPTURE(step);
    CHECK(reference(dropped.steps[step]) == doctest::Approx(reference(plain.steps[step])).epsilon(1e-6));
    CHECK(std::abs(dropped.steps[step].at("logps/chosen") - plain.steps[step].at("logps/chosen")) > 1e-3);
  }
  // The weights are the same: those at the start, which such a small rate does not change.
  const Change still = {"learning_rate", "1e-30"};
  CHECK(run(with_preferences(kDropout, {still})).evaluations == run({still}).evaluations);
  CHECK(run(with_preferences(kDropout, {still})).steps != run({still}).steps);
  // The scores of a reference that is gone before the first step, too.
  CHECK(run(with_preferences(kDropout, {{"precompute_ref_log_probs", "true"}})).steps == dropped.steps);
}

TEST_CASE("preference training that goes on from a checkpoint ends as one that was never stopped") {
  for (const char* name : kCases) {
    CAPTURE(name);
    const TemporaryFolder folder;
    const PreferenceOutcome whole = preference_outcome(name, folder.path() / "whole", {});
    const fs::path cut = folder.path() / "cut";
    (void)preference_outcome(name, cut, {{"max_steps", "3"}, {"save_strategy", "steps"}, {"save_steps", "3"}});
    const PreferenceOutcome rest =
        preference_outcome(name, cut, {{"resume_from_checkpoint", (cut / "checkpoint-3").string()}});
    CHECK(rest.weights == whole.weights);
    CHECK(rest.steps == std::vector(whole.steps.begin() + 3, whole.steps.end()));
  }
}

TEST_CASE("scores that the reference gave before the first step are those that it gives in each") {
  for (const char* name : {"dpo_sigmoid_full", "dpo_sigmoid_lora", "dpo_ld_alpha_lora", "kto_kto_full", "kto_kto_lora",
                           "dpo_other_lora", "dpo_other_full", "kto_other_full"}) {
    CAPTURE(name);
    const TemporaryFolder folder;
    const Changes precomputed = {{"precompute_ref_log_probs", "true"},
                                 {"dataset_prepared_path", (folder.path() / "prepared").string()}};
    const PreferenceOutcome plain = preference_outcome(name, folder.path() / "plain", {});
    CHECK(preference_outcome(name, folder.path() / "first", precomputed) == plain);
    const config::Config config = preference_config(name, folder.path() / "second", precomputed);
    const PreferenceRun again = run_preference(config);
    CHECK(again.read_known_scores);
    CHECK(again.steps == plain.steps);
    CHECK(weights_of(config) == plain.weights);
  }
}

TEST_CASE("scores of the reference that are not those that were written are made anew") {
  const TemporaryFolder folder;
  const fs::path prepared = folder.path() / "prepared";
  const auto run = [&](const char* name) {
    return run_preference(
        preference_config("dpo_sigmoid_lora", folder.path() / name,
                          {{"precompute_ref_log_probs", "true"}, {"dataset_prepared_path", prepared.string()}}));
  };
  const PreferenceRun first = run("first");
  fs::path file;
  for (const fs::directory_entry& entry : fs::directory_iterator(prepared)) {
    if (entry.path().filename().string().starts_with("reference-")) file = entry.path();
  }
  REQUIRE(!file.empty());
  const std::string whole = read_file(file, 1 << 20);
  std::string damaged = whole;
  damaged.back() = static_cast<char>(damaged.back() ^ 1);  // the last score, and still a number
  write_file(file, damaged);
  const PreferenceRun again = run("again");
  CHECK_FALSE(again.read_known_scores);
  CHECK(again.steps == first.steps);
  CHECK(read_file(file, 1 << 20) == whole);
}

TEST_CASE("what the reference says is the same with and without copies, before the run and in it") {
  struct Way {
    const char* name;
    Changes changes;
  };
  const std::vector<Way> ways = {
      {"dpo_sigmoid_lora", {{"lora_model_dir", "null"}}},  // a fresh adapter: the base without it
      {"dpo_sigmoid_lora", {{"lora_model_dir", "null"}, {"bf16", "true"}}},
      {"kto_kto_lora", {{"lora_model_dir", "null"}}},
      {"dpo_sigmoid_lora", {{"lora_model_dir", "null"}, {"lora_modules_to_save", "[embed_tokens]"}}},
      {"dpo_sigmoid_full", {{"unfrozen_parameters", "[\"model.layers.1\", \"model.embed_tokens.weight$[3:40]\"]"}}}};
  for (const Way& way : ways) {
    CAPTURE(way.name);
    CAPTURE(way.changes.back().key);
    const TemporaryFolder folder;
    const PreferenceOutcome plain = preference_outcome(way.name, folder.path() / "plain", way.changes);
    Changes others = way.changes;
    others.push_back({"precompute_ref_log_probs", "true"});
    CHECK(preference_outcome(way.name, folder.path() / "precomputed", others) == plain);
    others.back() = {"gradient_checkpointing", "true"};
    CHECK(preference_outcome(way.name, folder.path() / "recomputed", others) == plain);
    CHECK(plain.steps.front().at("rewards/chosen") == 0);  // before the first update policy and reference are one
  }
}

TEST_CASE("the model's own folder as another model's is the reference that there is without one") {
  const TemporaryFolder folder;
  const Change own = {"ref_model", (preference_goldens() / "model").string()};
  for (const char* name : {"dpo_sigmoid_full", "kto_kto_full", "dpo_sync_full"}) {
    CAPTURE(name);
    CHECK(preference_outcome(name, folder.path() / "own", {own}) ==
          preference_outcome(name, folder.path() / "none", {}));
  }
}

TEST_CASE("a pair's numbers do not depend on the pairs beside it") {
  const TemporaryFolder folder;
  const auto evaluation_of = [&](const char* rows) {
    const Changes changes = {{"val_set_size", "4"},
                             {"eval_batch_size", rows},
                             {"micro_batch_size", "4"},
                             {"gradient_accumulation_steps", "1"},
                             {"max_steps", "1"}};
    return run_preference(preference_config("dpo_sigmoid_full", folder.path() / rows, changes)).evaluations.back();
  };
  const auto alone = evaluation_of("1"), together = evaluation_of("4");
  for (const char* key : {"rewards/chosen", "rewards/rejected", "logps/chosen", "logps/rejected", "rewards/margins"}) {
    CAPTURE(key);
    CHECK(alone.at(key) == doctest::Approx(together.at(key)).epsilon(1e-13));  // the order of a sum of f64
  }
}

TEST_CASE("a quantised base is the reference of its adapter, whatever the plan") {
  const TemporaryFolder folder;
  for (const char* width : {"load_in_4bit", "load_in_8bit"}) {
    CAPTURE(width);
    const Changes quantised = {{width, "true"}, {"lora_model_dir", "null"}, {"memory.plan", "fixed"}};
    const PreferenceOutcome plain = preference_outcome("dpo_sigmoid_lora", folder.path() / "plain", quantised);
    CHECK(plain.steps.front().at("rewards/chosen") == 0);  // the adapter is fresh: policy and reference are one
    Changes offloaded = quantised;
    offloaded.insert(offloaded.end(), {{"layer_offloading", "disk"}, {"gradient_checkpointing", "true"}});
    CHECK(preference_outcome("dpo_sigmoid_lora", folder.path() / "other", offloaded) == plain);
  }
}
