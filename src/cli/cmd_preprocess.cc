#include "cli/cmd_preprocess.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/config_arguments.h"
#include "data/row_file.h"
#include "io/file.h"
#include "report/load_progress.h"
#include "runtime/lane_profile.h"
#include "train/training_data.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr CommandFlag kFlags[] = {{"--out", "FOLDER", "where the rows go; left out: OUTPUT_DIR/preprocessed"},
                                  {"--json", "", "print the summary as one JSON document"}};

// Writes the rows in the order of the first epoch: a line is a row, or several that are packed. A stream holds no
// padding; `unfilled_tokens` is what padding to sequence_len would have added.
ordered_json write_epoch(const fs::path& path, const data::RowTable& rows, const data::BatchOptions& options,
                         Progress& progress) {
  const data::EpochPlan plan = plan_epoch(rows, options, 0, packing_progress(progress));
  write_lines(path, rows, plan.lines);
  const std::span<const data::Piece> pieces = plan.lines.pieces;
  const int64_t tokens = count_tokens(pieces);
  return {
      {"rows", rows.size()},
      {"lines", plan.lines.size()},
      {"sequences", std::count_if(pieces.begin(), pieces.end(), [](const auto& piece) { return !piece.continues; })},
      {"tokens", tokens},
      {"target_tokens", count_targets(rows, pieces)},
      {"padding_tokens", 0},
      {"unfilled_tokens", plan.lines.size() * options.sequence_len - tokens}};
}

ordered_json write_all(const fs::path& folder, const train::Config& config, const train::TrainingData& data,
                       Progress& progress) {
  create_folders(folder);
  ordered_json summary = to_json(data.training_summary);
  summary.update(write_epoch(folder / "train.jsonl", data.training, batch_options(config), progress));
  if (!data.validation.empty()) {
    ordered_json& eval = summary["eval"] = ordered_json::object();
    if (data.validation_summary) eval = to_json(*data.validation_summary);
    eval.update(write_epoch(folder / "eval.jsonl", data.validation, evaluation_batch_options(config), progress));
  } else {
    fs::remove(folder / "eval.jsonl");  // of an earlier call
  }
  write_file(folder / "summary.json", json_text(summary, 2) + "\n");
  return summary;
}

ordered_json write_preferences_all(const fs::path& folder, const train::PreferenceData& data) {
  create_folders(folder);
  const auto write = [&](const char* name, const data::Preferences& part) {
    write_preferences(folder / name, part.rows);
    ordered_json counts = part.summary.rows_read > 0 ? to_json(part.summary) : ordered_json::object();
    counts["rows"] = part.rows.size();
    counts["tokens"] = count_tokens(part.rows);
    counts["padding_tokens"] = 0;
    return counts;
  };
  ordered_json summary = write("train.jsonl", data.training);
  if (data.validation.rows.empty()) {
    fs::remove(folder / "eval.jsonl");  // of an earlier call
  } else {
    summary["eval"] = write("eval.jsonl", data.validation);
  }
  write_file(folder / "summary.json", json_text(summary, 2) + "\n");
  return summary;
}

ordered_json preprocess(const fs::path& folder, const train::Config& config) {
  const ModelConfig model = read_model_config(config.base_model);
  if (objective_of(config) != data::Objective::kText)
    return write_preferences_all(folder, load_preference_data(config, model));
  Progress progress({});
  const train::TrainingData data =
      load_training_data(config, model, [&](int64_t records) { progress.count("rows read", records, now_seconds()); });
  return write_all(folder, config, data, progress);
}

}  // namespace

int cmd_preprocess(std::span<const std::string> args) {
  const auto arguments = parse_config_arguments(
      "preprocess", "Writes the rows that training would see; needs the tokenizer and config.json, no weights.", kFlags,
      args);
  if (!arguments) return kDone;
  const train::LoadedConfig loaded = load_config(*arguments, train::ConfigUse::kPreprocess);
  const train::Config& config = loaded.config;
  const fs::path folder =
      arguments->has("--out") ? fs::path(arguments->value("--out")) : fs::path(config.output_dir) / "preprocessed";
  const ordered_json summary = preprocess(folder, config);
  if (arguments->has("--json")) {
    fmt::print("{}\n", json_text(summary, 2));
  } else {
    fmt::print("{}\n", folder.string());
  }
  return kDone;
}

}  // namespace spillway
