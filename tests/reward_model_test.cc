// Reward models with the real program: from a model that predicts tokens to one that scores, merged, and trained on.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "io/file.h"
#include "io/safetensors.h"
#include "tests/support/preference_run.h"
#include "tests/support/process.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

void succeed(const std::vector<std::string>& args) {
  const Finished run = run_spillway(args);
  CAPTURE(args[0]);
  CAPTURE(run.err);
  REQUIRE(run.status == 0);
}

json read_config(const fs::path& folder, const char* name) { return json::parse(read_file(folder / name, 1 << 20)); }

// Trains a reward model for two steps.
void train_model(const fs::path& model, const fs::path& output, const json& keys) {
  json config = {{"base_model", model.string()},
                 {"reward_model", true},
                 {"datasets", {{{"path", (preference_goldens() / "pairs.jsonl").string()}}}},
                 {"sequence_len", 64},
                 {"micro_batch_size", 2},
                 {"max_steps", 2},
                 {"learning_rate", 1e-3},
                 {"bf16", false},
                 {"output_dir", output.string()}};
  config.update(keys);
  fs::create_directories(output.parent_path());
  const fs::path file = output.parent_path() / (output.filename().string() + ".yml");
  write_file(file, config.dump());
  succeed({"train", file.string()});
}

void check_classifier(const fs::path& folder) {
  const json config = read_config(folder, "config.json");
  CHECK(config["architectures"] == json{"LlamaForSequenceClassification"});
  CHECK(config["id2label"].size() == 1);
  const SafetensorsFolder weights(folder);
  REQUIRE(weights.find("score.weight"));
  CHECK(weights.find("score.weight")->shape == std::vector<int64_t>{1, config["hidden_size"]});
  CHECK_FALSE(weights.find("lm_head.weight"));
}

}  // namespace

TEST_CASE("a model that predicts tokens becomes one that scores, and goes on as such") {
  const TemporaryFolder folder;
  const fs::path full = folder.path() / "full";
  train_model(preference_goldens() / "model", full, json::object());
  check_classifier(full);
  CHECK(read_config(full, "config.json").contains("pad_token_id"));
  train_model(full, folder.path() / "again", json::object());
  check_classifier(folder.path() / "again");
}

TEST_CASE("an adapter trains its score in full, goes on, and is merged into a classifier") {
  const TemporaryFolder folder;
  const fs::path base = preference_goldens() / "model", adapter = folder.path() / "adapter",
                 merged = folder.path() / "merged";
  const json lora = {{"adapter", "lora"}, {"lora_r", 4}, {"lora_target_linear", true}};
  train_model(base, adapter, lora);
  const json config = read_config(adapter, "adapter_config.json");
  CHECK(config["task_type"] == "SEQ_CLS");
  CHECK(config["modules_to_save"] == json{"score"});
  const SafetensorsFile weights(adapter / "adapter_model.safetensors");
  CHECK(std::any_of(weights.tensors().begin(), weights.tensors().end(),
                    [](const StoredTensor& one) { return one.name == "base_model.model.score.weight"; }));
  train_model(base, folder.path() / "more", {{"adapter", "lora"}, {"lora_model_dir", adapter.string()}});
  succeed({"merge", base.string(), "--adapter", adapter.string(), "--out", merged.string()});
  check_classifier(merged);
  train_model(merged, folder.path() / "on", lora);
}
