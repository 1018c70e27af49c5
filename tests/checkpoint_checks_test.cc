// Checkpoints that do not belong to a run, or are damaged: refused, or said to compare no longer.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "io/file.h"
#include "tests/support/process.h"
#include "tests/support/tiny_job.h"

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;

namespace {

void edit_state(const fs::path& checkpoint, const std::function<void(nlohmann::json&)>& edit) {
  nlohmann::json state = nlohmann::json::parse(read_file(checkpoint / "spillway_state.json", 1 << 20));
  edit(state);
  write_file(checkpoint / "spillway_state.json", state.dump());
}

// Writes zeros over the second half of a file.
void zero_second_half(const fs::path& file) {
  std::string content = read_file(file, 1 << 24);
  std::fill(content.begin() + std::ssize(content) / 2, content.end(), '\0');
  write_file(file, content);
}

}  // namespace

TEST_CASE("a checkpoint of other data or of another job is refused") {
  const TinyJob job;
  REQUIRE(run_spillway(job.train("run", {"--max_steps", "6"})).status == 0);
  const std::string checkpoint = (job.output("run") / "checkpoint-6").string();
  const Finished other_rank = run_spillway(job.train("y", {"--resume_from_checkpoint", checkpoint, "--lora_r", "2"}));
  CHECK(other_rank.status == 2);
  CHECK(other_rank.err.find("[lora_r] expected 4, with which ") != std::string::npos);
  const Finished other_optimizer =
      run_spillway(job.train("y", {"--resume_from_checkpoint", checkpoint, "--optimizer", "lion"}));
  CHECK(other_optimizer.status == 2);
  CHECK(other_optimizer.err.find("[optimizer] expected adamw_torch_fused, with which ") != std::string::npos);
  const std::string state = read_file(fs::path(checkpoint) / "spillway_state.json", 1 << 20);
  write_file(fs::path(checkpoint) / "spillway_state.json", state.substr(0, state.size() / 2));
  const Finished cut = run_spillway(job.train("y", {"--resume_from_checkpoint", checkpoint}));
  CHECK(cut.status == 2);
  CHECK(cut.err.find("spillway_state.json] expected JSON, got something else: the file is cut short or damaged; ") !=
        std::string::npos);
  write_file(fs::path(checkpoint) / "spillway_state.json", state);
  edit_state(checkpoint, [](nlohmann::json& record) { record["version"] = 5; });
  const Finished other_version = run_spillway(job.train("z", {"--resume_from_checkpoint", checkpoint}));
  CHECK(other_version.status == 2);
  CHECK(other_version.err.find("expected a checkpoint of version 4, got 5; resume with") != std::string::npos);
}

TEST_CASE("a checkpoint of as many other rows is refused, and one that does not know its rows is not") {
  const TinyJob job;
  REQUIRE(run_spillway(job.train("run", {"--max_steps", "3"})).status == 0);
  const std::string checkpoint = (job.output("run") / "checkpoint-3").string();
  const std::vector<std::string> resume = {"--resume_from_checkpoint", checkpoint, "--max_steps", "6"};
  const std::string rows = job.rows();
  const size_t second = rows.find('\n') + 1;
  job.write_rows(rows.substr(second) + rows.substr(0, second));
  const Finished others = run_spillway(job.train("x", resume));
  CHECK(others.status == 2);
  CHECK(others.err.find("spillway_state.json] expected the rows of this config, got 24 others; resume with the data") !=
        std::string::npos);
  edit_state(checkpoint, [](nlohmann::json& state) {  // as the first version wrote it
    state["version"] = 1;
    for (const char* later : {"rows_checksum", "run", "settings", "base_model", "checksums", "xxh3"})
      state.erase(later);
  });
  const Finished older = run_spillway(job.train("x", resume));
  CAPTURE(older.err);
  REQUIRE(older.status == 0);
  // The checkpoint that it writes has the checksum of its rows.
  const std::string written = read_file(job.output("x") / "checkpoint-6" / "spillway_state.json", 1 << 20);
  CHECK(nlohmann::json::parse(written)["rows_checksum"].get<std::string>().size() == 16);
}

TEST_CASE("a run that goes on with other rows to evaluate on says that its losses do not compare") {
  const TinyJob job;
  const fs::path rows = job.output("evaluation.jsonl");
  std::ofstream(rows) << R"({"text": "w1 w2 w3 w4"})"
                      << "\n";
  const std::vector<std::string> evaluation = {"--test_datasets", "[{path: " + rows.string() + ", type: completion}]",
                                               "--eval_steps", "3"};
  const auto train = [&](std::vector<std::string> options) {
    options.insert(options.end(), evaluation.begin(), evaluation.end());
    return run_spillway(job.train("run", options));
  };
  REQUIRE(train({"--max_steps", "3"}).status == 0);
  const std::string checkpoint = (job.output("run") / "checkpoint-3").string();
  const auto resumed = [&] { return train({"--resume_from_checkpoint", checkpoint, "--max_steps", "6"}); };
  const Finished same = resumed();
  REQUIRE(same.status == 0);
  CHECK(same.err.find("evaluated on other rows") == std::string::npos);
  std::ofstream(rows) << R"({"text": "w5 w6 w7 w8"})"
                      << "\n";
  const Finished other = resumed();
  CAPTURE(other.err);
  REQUIRE(other.status == 0);
  CHECK(other.err.find("checkpoint-3/spillway_state.json: the run was evaluated on other rows so far") !=
        std::string::npos);
}

TEST_CASE("a checkpoint with a damaged tensor is refused by its name, whichever of its files holds it") {
  const TinyJob job;
  REQUIRE(run_spillway(job.train("run", {"--max_steps", "6"})).status == 0);
  const auto damaged = [&](const char* file) {
    const fs::path checkpoint = job.output("damaged");
    fs::remove_all(checkpoint);
    fs::copy(job.output("run") / "checkpoint-3", checkpoint);
    zero_second_half(checkpoint / file);
    const Finished run = run_spillway(job.train("x", {"--resume_from_checkpoint", checkpoint.string()}));
    CHECK(run.status == 2);
    CHECK_FALSE(fs::exists(job.output("x") / "adapter_model.safetensors"));
    return run.err;
  };
  const std::string state = damaged("spillway_state.safetensors");
  CAPTURE(state);
  CHECK(state.find("damaged/spillway_state.safetensors] expected '") != std::string::npos);
  CHECK(state.find("lora_") != std::string::npos);
  CHECK(state.find("as it was written, got other bytes; resume from another checkpoint") != std::string::npos);
  const std::string weights = damaged("adapter_model.safetensors");
  CAPTURE(weights);
  CHECK(weights.find("damaged/adapter_model.safetensors] expected 'base_model.model.") != std::string::npos);
  const fs::path edited = job.output("run") / "checkpoint-6";
  edit_state(edited, [](nlohmann::json& record) { record["step"] = 5; });
  const Finished other = run_spillway(job.train("x", {"--resume_from_checkpoint", edited.string()}));
  CHECK(other.status == 2);
  CHECK(other.err.find("spillway_state.json] expected what was written, got something else") != std::string::npos);
}

TEST_CASE("a checkpoint of a full model knows its tensors, too") {
  const TinyJob job;
  const std::vector<std::string> full = {"--adapter", "none", "--max_steps", "3"};
  REQUIRE(run_spillway(job.train("run", full)).status == 0);
  const fs::path checkpoint = job.output("run") / "checkpoint-3";
  REQUIRE(run_spillway(job.train("run", full + TinyJob::kResume)).status == 0);
  zero_second_half(checkpoint / "model.safetensors");
  const Finished damaged = run_spillway(job.train("run", full + TinyJob::kResume));
  CHECK(damaged.status == 2);
  CHECK(damaged.err.find("checkpoint-3/model.safetensors] expected 'lm_head.weight' as it was written") !=
        std::string::npos);
}

TEST_CASE("a run goes on only with the base it began with, wherever that lies now") {
  const TinyJob job;
  REQUIRE(run_spillway(job.train("run", {"--max_steps", "3"})).status == 0);
  const fs::path model = job.output("model");
  fs::copy(fs::path(SPILLWAY_SOURCE_DIR) / "tests/golden/models/llama2", model);
  const std::vector<std::string> resume = TinyJob::kResume + std::vector<std::string>{"--base_model", model.string()};
  CHECK(run_spillway(job.train("run", resume + std::vector<std::string>{"--max_steps", "6"})).status == 0);
  std::string weights = read_file(model / "model.safetensors", 1 << 24);
  weights.back() = static_cast<char>(weights.back() ^ 1);
  write_file(model / "model.safetensors", weights);
  const Finished other = run_spillway(job.train("run", resume + std::vector<std::string>{"--max_steps", "9"}));
  CAPTURE(other.err);
  CHECK(other.status == 2);
  CHECK(other.err.find("[base_model] expected the model that ") != std::string::npos);
  CHECK(other.err.find(" was trained on, got one with other values in '") != std::string::npos);
}

TEST_CASE("each value of the job's mathematics that changes on the way is said once, with old and new") {
  const TinyJob job;
  REQUIRE(run_spillway(job.train("run", {"--max_steps", "3"})).status == 0);
  const std::string where = (job.output("run") / "checkpoint-3").string();
  const Finished same = run_spillway(job.train("same", {"--max_steps", "3", "--resume_from_checkpoint", where}));
  CHECK(same.status == 0);
  CHECK(same.err.find("from here on") == std::string::npos);
  const Finished changed = run_spillway(job.train(
      "run", TinyJob::kResume + std::vector<std::string>{"--max_steps", "6", "--lora_alpha", "16", "--learning_rate",
                                                         "0.02", "--lr_scheduler", "linear", "--adam_beta2", "0.95"}));
  CAPTURE(changed.err);
  CHECK(changed.status == 0);
  for (const char* line : {"max_steps was 3 in {}, and is 6 from here on", "lora_alpha was 8 in {}, and is 16 from",
                           "learning_rate was 0.01 in {}, and is 0.02 from", "adam_beta2 was 0.999 in {}, and is 0.95",
                           "lr_scheduler was cosine in {}, and is linear from"}) {
    CAPTURE(line);
    const std::string expected = "warning: " + fmt::format(fmt::runtime(line), where);
    CHECK(changed.err.find(expected) != std::string::npos);
  }
  size_t warnings = 0;
  for (size_t at = changed.err.find("from here on"); at != std::string::npos;
       at = changed.err.find("from here on", at + 1))
    ++warnings;
  CHECK(warnings == 5);
}
