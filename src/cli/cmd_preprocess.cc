#include "cli/cmd_preprocess.h"

#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/config_arguments.h"
#include "io/file.h"
#include "train/training_data.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr CommandFlag kFlags[] = {{"--out", "FOLDER", "where the rows go; left out: OUTPUT_DIR/preprocessed"},
                                  {"--json", "", "print the summary as one JSON document"}};

// What one file of rows holds. A stream holds no padding, so none of its tokens are lost to it.
ordered_json describe(const std::vector<data::Row>& rows, size_t lines) {
  int64_t tokens = 0, targets = 0;
  for (const data::Row& row : rows) {
    tokens += static_cast<int64_t>(row.input_ids.size());
    targets += data::count_targets(row);
  }
  return {
      {"rows", rows.size()}, {"lines", lines}, {"tokens", tokens}, {"target_tokens", targets}, {"padding_tokens", 0}};
}

// Writes the rows in the order of the first epoch: a line is a row, or a bin where rows are packed.
ordered_json write_epoch(const fs::path& path, const std::vector<data::Row>& rows, data::BatchOptions options) {
  options.rows = 1;
  const std::vector<std::vector<int64_t>> lines = plan_epoch(rows, options, 0);
  write_rows(path, rows, lines);
  return describe(rows, lines.size());
}

ordered_json write_all(const fs::path& folder, const train::Config& config, const train::TrainingData& data) {
  create_folders(folder);
  ordered_json summary = to_json(data.training_summary);
  summary.update(write_epoch(folder / "train.jsonl", data.training, batch_options(config)));
  if (!data.validation.empty()) {
    ordered_json& eval = summary["eval"] = ordered_json::object();
    if (data.validation_summary) eval = to_json(*data.validation_summary);
    eval.update(write_epoch(folder / "eval.jsonl", data.validation, evaluation_batch_options(config)));
  } else {
    fs::remove(folder / "eval.jsonl");  // of an earlier call
  }
  write_file(folder / "summary.json", json_text(summary, 2) + "\n");
  return summary;
}

}  // namespace

int cmd_preprocess(std::span<const std::string> args) {
  const auto arguments = parse_config_arguments(
      "preprocess", "Writes the rows that training would see; needs the tokenizer and config.json, no weights.", kFlags,
      args);
  if (!arguments) return kDone;
  const train::LoadedConfig loaded = load_config(*arguments, train::ConfigUse::kPreprocess);
  const train::Config& config = loaded.config;
  const train::TrainingData data = load_training_data(config, read_model_config(config.base_model));
  const fs::path folder =
      arguments->has("--out") ? fs::path(arguments->value("--out")) : fs::path(config.output_dir) / "preprocessed";
  const ordered_json summary = write_all(folder, config, data);
  if (arguments->has("--json")) {
    fmt::print("{}\n", json_text(summary, 2));
  } else {
    fmt::print("{}\n", folder.string());
  }
  return kDone;
}

}  // namespace spillway
