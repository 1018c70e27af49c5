// Weights that training has away from the device, while completions are generated: ds3_gather_for_generation.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

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

// GRPO with weights on the host; every completion has ten tokens.
json config_of(int64_t completions, const json& changes) {
  json config = {{"base_model", (preference_goldens() / "model").string()},
                 {"rl", "grpo"},
                 {"datasets", {{{"path", (source_folder() / "tests/golden/online_rl/prompts.jsonl").string()}}}},
                 {"micro_batch_size", completions},
                 {"num_generations", 4},
                 {"max_completion_length", 10},
                 {"generation_kwargs", {{"min_new_tokens", 10}}},
                 {"learning_rate", 1e-3},
                 {"bf16", false},
                 {"max_steps", 1},
                 {"save_strategy", "no"},
                 {"curriculum_sampling", true},
                 {"parameter_offload", "host"},
                 {"reward_funcs", {"think_format_reward"}},
                 {"output_dir", (fs::current_path() / "out").string()}};
  config.update(changes);
  return config;
}

Finished run(const WorkingFolder& folder, const char* command, const json& config) {
  folder.write("c.yml", config.dump());
  fs::remove_all("out");
  return run_spillway({command, "c.yml"});
}

// Returns the section on generation in the report.json of a run.
json generation_of(const WorkingFolder& folder, int64_t completions, const json& changes) {
  const Finished result = run(folder, "train", config_of(completions, changes));
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  return json::parse(folder.read("out/report.json"))["generation"];
}

// For a machine that is described, so that no plan has other measurements than the one before.
json planned(const WorkingFolder& folder, const json& config) {
  folder.write("c.yml", config.dump());
  const Finished result = run_spillway({"plan", "c.yml", "--json", "--gpu", "h200"});
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  return json::parse(result.out);
}

int64_t streamed_bytes(const json& generation) { return generation["bytes_streamed"].get<int64_t>(); }

}  // namespace

TEST_CASE("the bytes that a round moves do not grow with its sequences") {
  const WorkingFolder folder;
  for (const bool gathers : {false, true}) {
    CAPTURE(gathers);
    const json few = generation_of(folder, 4, {{"ds3_gather_for_generation", gathers}}),
               many = generation_of(folder, 32, {{"ds3_gather_for_generation", gathers}});
    CHECK(few["weights"] == (gathers ? "resident" : "streamed"));
    CHECK(streamed_bytes(few) > 0);
    CHECK(static_cast<double>(streamed_bytes(many)) <= 1.3 * static_cast<double>(streamed_bytes(few)));
  }
}

TEST_CASE("gathered weights come to the device once a round, others for each token position") {
  const WorkingFolder folder;
  const json once = generation_of(folder, 4, {{"trl", {{"ds3_gather_for_generation", true}}}}),
             each = generation_of(folder, 4, {{"trl", {{"ds3_gather_for_generation", false}}}});
  CHECK(streamed_bytes(each) >= 10 * streamed_bytes(once));
}

TEST_CASE("left out, the planner takes what it predicts to be faster, in the memory that training takes") {
  const WorkingFolder folder;
  const json chosen = planned(folder, config_of(8, json::object())),
             streamed = planned(folder, config_of(8, {{"ds3_gather_for_generation", false}})),
             gathered = planned(folder, config_of(8, {{"ds3_gather_for_generation", true}}));
  const auto seconds = [](const json& plan) { return plan["generation"]["seconds"].get<double>(); };
  const auto bytes = [](const json& plan) { return plan["tiers"]["device"]["peak_bytes"].get<int64_t>(); };
  CHECK(seconds(chosen) == doctest::Approx(std::min(seconds(streamed), seconds(gathered))));
  CHECK(bytes(chosen) <= bytes(streamed));
}

TEST_CASE("weights that are resident anyway need no copies") {
  const WorkingFolder folder;
  const json here = planned(folder, config_of(4, {{"parameter_offload", "none"}, {"ds3_gather_for_generation", true}}));
  CHECK(here["generation"]["weights"] == "resident");
  CHECK(streamed_bytes(here["generation"]) == 0);
  CHECK(here.dump().find("gathered weights") == std::string::npos);
}

TEST_CASE("gathering that does not fit says what would") {
  const WorkingFolder folder;
  // So many weights that they, and not activations, fill memory.
  fs::copy(preference_goldens() / "model", "deep");
  fs::remove("deep/model.safetensors");
  json model = json::parse(folder.read("deep/config.json"));
  model.update({{"num_hidden_layers", 40}, {"intermediate_size", 1024}});
  folder.write("deep/config.json", model.dump());
  const auto job = [&](bool gathers, const std::string& device) {
    return config_of(4, {{"base_model", "deep"},
                         {"gradient_checkpointing", true},
                         {"optimizer_offload", "host"},
                         {"ds3_gather_for_generation", gathers},
                         {"memory", {{"device", device}}}});
  };
  const auto bytes_of = [&](bool gathers) {
    return planned(folder, job(gathers, "1GiB"))["tiers"]["device"]["by_phase"]["generation"].get<int64_t>();
  };
  const int64_t streamed = bytes_of(false), gathered = bytes_of(true);
  REQUIRE(gathered > 2 * streamed);
  const Finished result = run(folder, "plan", job(true, "10MiB"));
  CAPTURE(result.err);
  CHECK(result.status == 2);
  CHECK(result.err.find("[ds3_gather_for_generation] expected at least ") != std::string::npos);
  CHECK(result.err.find("for all weights on the device while completions are generated, got 10.0 MiB; raise it, or set "
                        "false, which takes ") != std::string::npos);
  CHECK(run(folder, "plan", job(false, "10MiB")).status == 0);
  CHECK(run(folder, "plan", job(true, std::to_string(gathered))).status == 0);
}

TEST_CASE("answers that do not fit beside the fastest plan of training get a plan that leaves them room") {
  const WorkingFolder folder;
  fs::copy(preference_goldens() / "model", "deep");
  fs::remove("deep/model.safetensors");
  json model = json::parse(folder.read("deep/config.json"));
  model.update({{"num_hidden_layers", 40}, {"intermediate_size", 1024}, {"max_position_embeddings", 100'000}});
  folder.write("deep/config.json", model.dump());
  folder.write("rows.jsonl", "{\"text\": \"a b c\"}\n{\"text\": \"c b a\"}\n");
  const auto job = [](const std::string& device) {
    return json{{"base_model", "deep"},
                {"datasets", {{{"path", "rows.jsonl"}, {"type", "completion"}, {"field", "text"}}}},
                {"sequence_len", 16},
                {"micro_batch_size", 2},
                {"bf16", false},
                {"learning_rate", 1e-3},
                {"sample_prompts", {"a b"}},
                {"sample_max_new_tokens", 20'000},
                {"memory", {{"device", device}, {"host", "1GiB"}}},
                {"output_dir", "out"}};
  };
  const auto device_of = [&](const json& plan) { return plan["tiers"]["device"]["peak_bytes"].get<int64_t>(); };
  // Answers take more than training, and training is fastest with everything on the device.
  const json whole = planned(folder, job("1GiB"));
  const int64_t needed = device_of(whole), state = whole["tiers"]["device"]["by_kind"]["optimizer_state"];
  REQUIRE(whole["tiers"]["host"]["peak_bytes"] == 0);
  REQUIRE(state > needed / 20);
  const int64_t budget = needed - state / 2;
  const json moved = planned(folder, job(std::to_string(budget)));
  CHECK(device_of(moved) <= budget);
  CHECK(moved["tiers"]["host"]["peak_bytes"] > 0);
  CHECK(moved["step_seconds"] >= whole["step_seconds"]);
}
