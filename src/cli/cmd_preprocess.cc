#include "cli/cmd_preprocess.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/config_arguments.h"
#include "cli/preprocess/clip_samples.h"
#include "cli/preprocess/shown_rows.h"
#include "data/row_file.h"
#include "io/file.h"
#include "io/output_folder.h"
#include "job/clips/clip_job.h"
#include "job/training_data.h"
#include "model/model.h"
#include "report/progress.h"
#include "saved/output.h"
#include "text/tokenizer.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr CommandFlag kPreprocessFlags[] = {
    {"--out", "FOLDER", "where the rows go; left out: OUTPUT_DIR/preprocessed"},
    {"--show", "N", "print the text of N rows with targets marked, how long rows are, and what is cut of them"},
    {"--json", "", "print the summary as one JSON document"}};
constexpr std::string_view kPreprocessExamples[] = {"spillway preprocess config.yml --out ./rows",
                                                    "spillway preprocess config.yml --show 2"};
constexpr ConfigCommand kPreprocessCommand = {
    "preprocess", "Writes the rows that training would see; needs the tokenizer and config.json, no weights.",
    kPreprocessFlags, kPreprocessExamples};

// The content of a file of lines. A batch holds no padding; `unfilled_tokens` is what padding to sequence_len would
// have added.
struct LineCounts {
  int64_t lines = 0, sequences = 0, tokens = 0, target_tokens = 0;

  void add(const data::RowTable& rows, std::span<const data::Piece> pieces, int64_t line_count) {
    lines += line_count;
    sequences += std::count_if(pieces.begin(), pieces.end(), [](const auto& piece) { return !piece.continues; });
    tokens += count_tokens(pieces);
    target_tokens += count_targets(rows, pieces);
  }
  [[nodiscard]] ordered_json json(int64_t rows, int64_t sequence_len) const {
    return {{"rows", rows},
            {"lines", lines},
            {"sequences", sequences},
            {"tokens", tokens},
            {"target_tokens", target_tokens},
            {"padding_tokens", 0},
            {"unfilled_tokens", lines * sequence_len - tokens}};
  }
};

// Writes the rows in the order of the first epoch: a line is a row, or several that are packed.
ordered_json write_epoch(const fs::path& path, const data::RowTable& rows, const data::BatchOptions& options,
                         Progress& progress) {
  const data::EpochPlan plan = plan_epoch(rows, options, 0, packing_progress(progress));
  write_lines(path, rows, plan.lines);
  LineCounts counts;
  counts.add(rows, plan.lines.pieces, plan.lines.size());
  return counts.json(rows.size(), options.sequence_len);
}

// Where the rows of a block begin, in ascending order.
std::vector<int64_t> beginnings_of(const data::RowTable& rows) {
  std::vector<int64_t> beginnings;
  for (int64_t i = 0; i < rows.size(); ++i) beginnings.push_back(rows.row(i).begin);
  return beginnings;
}

// The lines that max_steps take of a stream, and the rows that begin in them. Records are counted by the block, so that
// some are read beyond those.
ordered_json write_stream(const fs::path& path, const std::shared_ptr<const data::StreamSource>& source,
                          const config::Config& config) {
  data::RowStream stream(source);
  data::LineFile file(path);
  LineCounts counts;
  int64_t rows = 0;
  const int64_t wanted =
      *config.schedule.max_steps * config.batches.gradient_accumulation_steps * config.batches.micro_batch_size;
  while (counts.lines < wanted) {
    const data::RowBlock block = stream.next();
    const std::vector<int64_t> beginnings = beginnings_of(block.rows);
    for (int64_t i = 0; i < block.lines.size() && counts.lines < wanted; ++i) {
      const std::span<const data::Piece> line = block.lines.line(i);
      file.add(block.rows, line);
      counts.add(block.rows, line, 1);
      rows += std::count_if(line.begin(), line.end(), [&](const data::Piece& piece) {
        return std::binary_search(beginnings.begin(), beginnings.end(), piece.begin);
      });
    }
  }
  file.commit();
  ordered_json summary = to_json(stream.summary());
  summary.update(counts.json(rows, config.batches.sequence_len));
  return summary;
}

ordered_json write_all(const fs::path& folder, const config::Config& config, const train::TrainingData& data,
                       Progress& progress) {
  ordered_json summary;
  if (data.stream) {
    summary = write_stream(folder / "train.jsonl", data.stream, config);
  } else {
    summary = to_json(data.training_summary);
    summary.update(write_epoch(folder / "train.jsonl", data.training, config.data.batches, progress));
  }
  if (!data.validation.empty()) {
    ordered_json& eval = summary["eval"] = ordered_json::object();
    if (data.validation_summary) eval = to_json(*data.validation_summary);
    eval.update(write_epoch(folder / "eval.jsonl", data.validation, config.data.evaluation_batches, progress));
  }
  write_file(folder / "summary.json", json_text(summary, 2) + "\n");
  return summary;
}

ordered_json write_preferences_all(const fs::path& folder, const train::PreferenceData& data) {
  const auto write = [&](const char* name, const data::Preferences& part) {
    write_preferences(folder / name, part.rows);
    ordered_json counts = part.summary.rows_read > 0 ? to_json(part.summary) : ordered_json::object();
    counts["rows"] = part.rows.size();
    counts["tokens"] = count_tokens(part.rows);
    counts["padding_tokens"] = 0;
    return counts;
  };
  ordered_json summary = write("train.jsonl", data.training);
  if (!data.validation.rows.empty()) summary["eval"] = write("eval.jsonl", data.validation);
  write_file(folder / "summary.json", json_text(summary, 2) + "\n");
  return summary;
}

// The training rows that --show prints.
struct Preview {
  std::vector<ShownRow> rows;
  data::DatasetSummary read;
};

// Returns the number of rows for --show; 0 if it was not given.
int64_t shown_count(const ConfigArguments& arguments) {
  if (!arguments.has("--show")) return 0;
  const std::string value = arguments.value("--show");
  int64_t count = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), count);
  if (error != std::errc() || end != value.data() + value.size() || count < 1) {
    throw input_error("--show", "expected a whole number from 1, got '{}'; say how many rows to print",
                      shown_line(value));
  }
  return count;
}

bool wants_colours() {
  const char* no_color = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) != 0 && (no_color == nullptr || *no_color == '\0');
}

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

void print_preview(const Preview& preview, const ordered_json& summary, const text::Tokenizer& tokenizer) {
  const bool colours = wants_colours();
  for (const ShownRow& row : preview.rows) fmt::print("{}\n", text_of_row(row, tokenizer, colours));
  fmt::print("{}", text_of_lengths(preview.read));
  if (!summary.contains("target_tokens")) return;
  const auto tokens = summary["tokens"].get<double>(), unfilled = summary["unfilled_tokens"].get<double>();
  fmt::print("{:.1f}% of the tokens are targets; {} rows are {} lines, {:.1f}% full\n",
             percent(summary["target_tokens"].get<double>(), tokens), summary["rows"].get<int64_t>(),
             summary["lines"].get<int64_t>(), percent(tokens, tokens + unfilled));
}

// Adds what --show asks for to the summary.
ordered_json with_preview(ordered_json summary, const Preview& preview, const text::Tokenizer& tokenizer) {
  summary["shown"] = ordered_json::array();
  for (const ShownRow& row : preview.rows) summary["shown"].push_back(json_of_row(row, tokenizer));
  return summary;
}

ordered_json preprocess(const fs::path& out, const config::Config& config, int64_t shown, Preview& preview) {
  const ModelPtr model = read_model(config.model.base_model, config.model.config_overrides);
  Progress progress({});
  const auto count = [&](int64_t records) { progress.count("rows read", records, now_seconds()); };
  const auto write = [&](const auto& write_rows) {
    AtomicFolder folder(out, kPreprocessCommand.name);
    ordered_json summary = write_rows(folder.path());
    folder.publish();
    return summary;
  };
  if (model->video()) {
    if (shown > 0) throw input_error("--show", "expected rows of text, got clips; leave it out");
    return write([&](const fs::path& folder) { return write_clip_samples(folder, config, *model, progress); });
  }
  train::check_no_video_keys(config);
  const int64_t vocab_size = text_of(*model, "base_model").vocab_size;
  if (has_completions(config.data.rows.objective)) {
    const train::PreferenceData data = train::load_preference_data(config.data, config.tokenizer, vocab_size, count);
    if (shown > 0) preview = {shown_rows(data.training.rows, shown), data.training.summary};
    return write([&](const fs::path& folder) { return write_preferences_all(folder, data); });
  }
  const train::TrainingData data = train::load_training_data(config.data, config.tokenizer, vocab_size, count);
  if (shown > 0) preview = {shown_rows(data.training, shown), data.training_summary};
  return write([&](const fs::path& folder) { return write_all(folder, config, data, progress); });
}

}  // namespace

int cmd_preprocess(std::span<const std::string> args) {
  const auto arguments = parse_config_arguments(kPreprocessCommand, args);
  if (!arguments) return kDone;
  const config::LoadedConfig loaded = load_config(*arguments, config::ConfigUse::kPreprocess);
  const config::Config& config = loaded.config;
  const fs::path folder = arguments->has("--out") ? fs::path(arguments->value("--out"))
                                                  : fs::path(config.output.output_dir) / "preprocessed";
  const std::string_view key = arguments->has("--out") ? "--out" : "output_dir";
  check_apart(key, folder, train::inputs_of(config));
  check_replaceable(key, folder, kPreprocessCommand.name);
  const int64_t shown = shown_count(*arguments);
  if (shown > 0 && (config.data.stream || config.data.rows.objective == data::Objective::kPrompts)) {
    throw input_error("--show", "expected rows with targets that are read before training, got {}; leave it out",
                      config.data.stream ? "a stream" : "prompts");
  }
  Preview preview;
  ordered_json summary = preprocess(folder, config, shown, preview);
  if (shown > 0) {
    const auto tokenizer = text::Tokenizer::load(config.tokenizer.folder, config.tokenizer.special_tokens);
    if (arguments->has("--json")) {
      summary = with_preview(std::move(summary), preview, tokenizer);
    } else {
      print_preview(preview, summary, tokenizer);
    }
  }
  if (arguments->has("--json")) {
    fmt::print("{}\n", json_text(summary, 2));
  } else {
    fmt::print("{}\n", isatty(STDOUT_FILENO) ? shown_line(folder.string()) : folder.string());
  }
  return kDone;
}

}  // namespace spillway
