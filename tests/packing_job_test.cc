// Packing and prepared rows through the real program: what preprocess writes, and what train trains on.
#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/temporary_folder.h"
#include "io/file.h"
#include "tests/support/process.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

// A tiny model, and tokenised rows of the lengths of TRL's documentation: 5, 2, 3 and 1.
class PackingJob {
 public:
  PackingJob() {
    const fs::path file = fs::path(SPILLWAY_SOURCE_DIR) / "tests/golden/import/llama.gguf";
    REQUIRE(run_spillway({"import", file.string(), "--out", path("model"), "--dtype", "f32"}).status == 0);
    std::string rows;
    for (const char* ids : {"[1, 2, 3, 4, 5]", "[6, 7]", "[8, 9, 10]", "[11]"})
      rows += std::string("{\"input_ids\": ") + ids + "}\n";
    write_file(path("rows.jsonl"), rows);
  }

  [[nodiscard]] std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  [[nodiscard]] Finished run(const std::string& command, json keys) const {
    json config = {{"base_model", path("model")},
                   {"datasets", {{{"path", path("rows.jsonl")}, {"type", ""}}}},
                   {"max_length", 4},
                   {"packing", true},
                   {"curriculum_sampling", true},
                   {"max_steps", 2},
                   {"learning_rate", 0.01},
                   {"bf16", false},
                   {"output_dir", path("out")}};
    config.update(keys);
    write_file(path("config.yml"), config.dump());
    Finished finished = run_spillway({command, path("config.yml")});
    CAPTURE(finished.err);
    REQUIRE(finished.status == 0);
    return finished;
  }

  [[nodiscard]] std::vector<json> rows(const std::string& strategy) const {
    (void)run("preprocess", {{"packing_strategy", strategy}});
    std::ifstream file(path("out/preprocessed/train.jsonl"));
    std::vector<json> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line));
    return lines;
  }
  [[nodiscard]] json summary() const {
    return json::parse(read_file(path("out/preprocessed/summary.json"), int64_t{1} << 20));
  }

 private:
  TemporaryFolder folder_;
};

std::vector<json> column(const std::vector<json>& rows, const char* name) {
  std::vector<json> values;
  for (const json& row : rows) values.push_back(row.at(name));
  return values;
}

}  // namespace

TEST_CASE("preprocess writes the lines that trl packs, and counts them") {
  const PackingJob job;
  std::vector<json> rows = job.rows("bfd");
  CHECK(column(rows, "input_ids") == std::vector<json>{{1, 2, 3, 4}, {8, 9, 10, 11}, {6, 7}});
  CHECK(column(rows, "seq_lengths") == std::vector<json>{json::array({4}), {3, 1}, json::array({2})});
  CHECK(column(rows, "position_ids") == std::vector<json>{{0, 1, 2, 3}, {0, 1, 2, 0}, {0, 1}});
  CHECK(column(rows, "labels") == std::vector<json>{{-100, 2, 3, 4}, {-100, 9, 10, -100}, {-100, 7}});
  const json summary = job.summary();
  CHECK(summary["rows_read"] == 4);
  CHECK(summary["truncated"] == 1);
  CHECK(summary["lines"] == 3);
  CHECK(summary["sequences"] == 4);
  CHECK(summary["tokens"] == 10);
  CHECK(summary["padding_tokens"] == 0);
  CHECK(summary["unfilled_tokens"] == 2);

  rows = job.rows("bfd-requeue");
  CHECK(column(rows, "input_ids") == std::vector<json>{{1, 2, 3, 4}, {8, 9, 10, 5}, {6, 7, 11}});
  rows = job.rows("wrapped");
  CHECK(column(rows, "input_ids") == std::vector<json>{{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11}});
  CHECK(column(rows, "labels") == std::vector<json>{{-100, 2, 3, 4}, {-100, 6, 7, 8}, {-100, 10, 11}});
  CHECK(column(rows, "seq_lengths") == std::vector<json>{json::array({4}), json::array({4}), json::array({3})});
}

TEST_CASE("a line of single tokens is trained on") {
  const PackingJob job;
  std::string rows;
  for (int i = 0; i < 40; ++i) rows += "{\"input_ids\": [" + std::to_string(i % 10) + "]}\n";
  write_file(job.path("rows.jsonl"), rows + "{\"input_ids\": [1, 2]}\n{\"input_ids\": [3, 4]}\n");
  (void)job.run("train", json::object());
  (void)job.run("train", {{"packing", false}, {"sample_packing", true}});
  (void)job.run("train", {{"packing", false}, {"eval_packing", true}, {"val_set_size", 1}});
}

TEST_CASE("training packs, prepares rows once, and makes damaged ones again with the same losses") {
  const PackingJob job;
  const json keys = {{"packing_strategy", "bfd_split"},
                     {"micro_batch_size", 2},
                     {"gradient_accumulation_steps", 2},
                     {"dataset_prepared_path", job.path("prepared")}};
  const auto losses = [&] {
    std::ifstream file(job.path("out/metrics.jsonl"));
    std::vector<double> values;
    for (std::string line; std::getline(file, line);) values.push_back(json::parse(line)["loss"].get<double>());
    return values;
  };
  const Finished first = job.run("train", keys);
  CHECK(first.err.find("packed into 3 lines of 4 tokens, 91.7 % full") != std::string::npos);
  CHECK(first.err.find("kept in " + job.path("prepared")) != std::string::npos);
  const std::vector<double> expected = losses();
  CHECK(expected.size() == 2);
  const Finished second = job.run("train", keys);
  CHECK(second.err.find("from " + job.path("prepared")) != std::string::npos);
  CHECK(losses() == expected);
  for (const auto& entry : fs::directory_iterator(job.path("prepared"))) fs::resize_file(entry.path() / "ids.bin", 8);
  const Finished third = job.run("train", keys);
  CHECK(third.err.find("is damaged and prepared again: [ids.bin] expected 44 bytes, got 8") != std::string::npos);
  CHECK(losses() == expected);
}

TEST_CASE("preprocess shows rows with their targets, and one document as JSON") {
  const PackingJob job;
  (void)job.run("preprocess", json::object());
  const auto show = [&](std::vector<std::string> more) {
    std::vector<std::string> args = {"preprocess", job.path("config.yml"), "--show"};
    args.insert(args.end(), more.begin(), more.end());
    return run_spillway(args);
  };
  const Finished shown = show({"2", "--json"});
  CAPTURE(shown.err);
  REQUIRE(shown.status == 0);
  const json document = json::parse(shown.out);
  REQUIRE(document["shown"].size() == 2);
  CHECK(document["shown"][1]["ids"] == json({6, 7}));
  CHECK(document["shown"][1]["is_target"] == json({0, 1}));
  CHECK(job.summary().count("shown") == 0);
  const Finished text = show({"1"});
  CHECK(text.status == 0);
  CHECK(text.out.find("\033[") == std::string::npos);  // no terminal
  CHECK(text.out.find("⟦") != std::string::npos);
  CHECK(text.out.find("of the tokens are targets") != std::string::npos);
  for (const char* count : {"0", "-1", "two", "1x"}) {
    const Finished refused = show({count});
    CHECK(refused.status != 0);
    CHECK(refused.err.find("[--show] expected a whole number from 1") != std::string::npos);
  }
}
