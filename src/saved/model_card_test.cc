#include "saved/model_card.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "base/temporary_folder.h"
#include "config/yaml.h"
#include "io/file.h"

using namespace spillway;
using namespace spillway::train;
namespace fs = std::filesystem;

namespace {

Job job_of(const std::string& base) {
  Job job;
  job.config.model.base_model = base;
  job.config.output.output_dir = "runs/my model/";
  return job;
}

std::string card_of(const Job& job, const TrainedFacts& facts) {
  return model_card(job, facts, license_lines(job.config.model.base_model));
}

// Returns the part of the card that the hub reads: the YAML between the first two --- lines.
config::YamlNode front_of(const std::string& card) {
  REQUIRE(card.starts_with("---\n"));
  return config::parse_yaml(card.substr(4, card.find("\n---\n", 4) - 4), "card");
}

std::string text_of(const config::YamlNode& front, std::string_view key) {
  const config::YamlNode* node = front.find(key);
  return node ? node->text : "";
}

}  // namespace

TEST_CASE("the card names a base of the hub's cache as the hub does, with the license of its README") {
  const TemporaryFolder folder;
  const fs::path base = folder.path() / "models--Some-Org--small--v2" / "snapshots" / "0123";
  fs::create_directories(base);
  write_file(
      base / "README.md",
      "---\nlanguage: en\nlicense: other\nlicense_name: \"a: b\"\nlicense_link: https://x.org/l#1\n---\n# Small\n");
  const config::YamlNode front = front_of(card_of(job_of(base.string()), {}));
  CHECK(text_of(front, "base_model") == "Some-Org/small--v2");
  CHECK(text_of(front, "license") == "other");
  CHECK(text_of(front, "license_name") == "a: b");
  CHECK(text_of(front, "license_link") == "https://x.org/l#1");
  CHECK(text_of(front, "library_name") == "transformers");
}

TEST_CASE("a base without a README, or with one that is no YAML, has no license in the card") {
  const TemporaryFolder folder;
  const Job job = job_of(folder.path().string());
  CHECK(text_of(front_of(card_of(job, {})), "license").empty());
  write_file(folder.path() / "README.md", "---\nlicense: [\n---\n");
  CHECK(text_of(front_of(card_of(job, {})), "license").empty());
  CHECK(text_of(front_of(card_of(job, {})), "base_model") == folder.path().string());
}

TEST_CASE("data sets that the hub has are in the front matter, all are in the text") {
  Job job = job_of("m");
  data::DatasetConfig hub, file;
  hub.path = "nobody-has/this-folder";
  file.path = "some/where/rows.jsonl";
  job.config.data.datasets = {hub, file, hub};
  const std::string card = card_of(job, {});
  const config::YamlNode front = front_of(card);
  const config::YamlNode* ids = front.find("datasets");
  REQUIRE(ids != nullptr);
  REQUIRE(ids->items.size() == 1);
  CHECK(ids->items[0].text == "nobody-has/this-folder");
  CHECK(card.find("`rows.jsonl`") != std::string::npos);
}

TEST_CASE("names that YAML would read as something else come back as they were") {
  for (const char* name : {"a: b", "yes", "1.5", "- x", "\"q\"", "plain/name-1.0", "null", "#c"}) {
    CAPTURE(std::string(name));
    CHECK(text_of(front_of(card_of(job_of(name), {})), "base_model") == name);
  }
}

TEST_CASE("a reward model's card says how a classifier is loaded, and no chat") {
  Job job = job_of("m");
  job.config.preference.emplace().kind = config::PreferenceKind::kReward;
  const std::string card = card_of(job, {});
  CHECK(text_of(front_of(card), "pipeline_tag") == "text-classification");
  CHECK(card.find("AutoModelForSequenceClassification.from_pretrained(\"runs/my model/\")") != std::string::npos);
  CHECK(card.find("spillway chat") == std::string::npos);
  // PEFT makes two labels of a base whose config says nothing of them, and cannot load an adapter of one into that.
  job.graph.model.lora.emplace();
  CHECK(card_of(job, {}).find("AutoPeftModelForSequenceClassification.from_pretrained(\"runs/my model/\", "
                              "num_labels=1)") != std::string::npos);
}

TEST_CASE("what was measured is in the card") {
  TrainedFacts facts{.steps = 7, .total_steps = 9, .epochs = 1.5, .tokens = 123, .loss = 2.5};
  facts.evaluation_step = 6;
  facts.evaluation = {{"loss", 2.25}, {"mean_token_accuracy", 0.5, true}};
  facts.metric = "loss";
  facts.best = {4, 2};
  facts.loaded_step = 4;
  facts.settings = {{"seed", "7"}, {"ref_model", ""}};
  facts.tiers = {{"device", 1 << 20, 1 << 19}};
  const std::string card = card_of(job_of("m"), facts);
  for (const char* line : {"| steps | 7 of 9 |", "| tokens trained on | 123 |", "| loss of the last step | 2.5 |",
                           "| eval_loss, after step 6 | 2.25 |", "| eval_mean_token_accuracy, after step 6 | 50.0 % |",
                           "| best eval_loss | 2, after step 4 |", "| weights | of step 4 |", "| `seed` | 7 |",
                           "| device | 1.0 MiB | 512.0 KiB |"}) {
    CAPTURE(std::string(line));
    CHECK(card.find(line) != std::string::npos);
  }
  CHECK(card.find("ref_model") == std::string::npos);
  facts.tiers.front().measured_bytes.reset();
  CHECK(card_of(job_of("m"), facts).find("| device | 1.0 MiB | - |") != std::string::npos);
}

TEST_CASE("a card is written over a card alone") {
  const TemporaryFolder folder;
  const fs::path readme = folder.path() / "README.md";
  write_model_card(readme, job_of("m"), {}, "");
  CHECK(read_file(readme, 1 << 20) == card_of(job_of("m"), {}));
  write_model_card(readme, job_of("other"), {}, "");
  CHECK(read_file(readme, 1 << 20) == card_of(job_of("other"), {}));
  write_file(readme, "# Mine\n");
  write_model_card(readme, job_of("m"), {}, "");
  CHECK(read_file(readme, 1 << 20) == "# Mine\n");
}
