#include "data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/text.h"
#include "data/files/dataset_records.h"
#include "data/rows/row_builder.h"
#include "data/rows/row_pipeline.h"

namespace spillway::data {
using Json = nlohmann::ordered_json;

RowTable rows_that_fit(const RowTable& rows, const RowOptions& options) {
  if (has_completions(options.objective)) return rows;  // never packed, so that one rule made them
  const LengthRule rule = length_rule(options);
  std::vector<int64_t> fitting;
  for (int64_t i = 0; i < rows.size(); ++i) {
    const auto ids = rows.ids(rows.row(i)), labels = rows.labels(rows.row(i));
    Row row{.input_ids = {ids.begin(), ids.end()}, .labels = {labels.begin(), labels.end()}};
    const Fit fit = fit_row(row, rule, "val_set_size");
    if (fit == Fit::kWhole || fit == Fit::kTruncated) fitting.push_back(i);
  }
  return rows.select(std::move(fitting));
}

InputError no_rows(std::span<const DatasetConfig> configs, const DatasetSummary& summary) {
  const auto& dropped = summary.dropped;
  std::string paths;
  for (const DatasetConfig& config : configs) paths += (paths.empty() ? "" : ", ") + config.path;
  return input_error(
      fmt::format("datasets: {}", paths),
      "expected at least one row to train on, got none ({} rows read; {} empty, {} too short, {} too long, {} without "
      "targets); see that fields and roles are named as the rows name them, and that prompts leave room below "
      "sequence_len (max_length)",
      summary.rows_read, dropped.empty, dropped.too_short, dropped.too_long, dropped.no_targets);
}

DatasetSummary read_datasets(std::span<const DatasetConfig> configs, const RowOptions& options,
                             const text::Tokenizer& tokenizer, const Preparation& preparation, RowSink& sink) {
  RowCollector collector(options, sink);
  std::vector<std::unique_ptr<RowBuilder>> builders;
  for (const DatasetConfig& config : configs) builders.push_back(make_row_builder(config, options, tokenizer));
  std::vector<RecordReader> readers = open_datasets(configs);
  RowPipeline pipeline(preparation.threads, collector, preparation.progress);
  for (size_t i = 0; i < configs.size(); ++i) {
    pipeline.read(readers[i], *builders[i]);
    pipeline.finish();
    collector.end_dataset();
  }
  if (collector.summary().rows == 0) throw no_rows(configs, collector.summary());
  return collector.summary();
}

DatasetSummary summary_of_first(const DatasetConfig& config, const RowOptions& options,
                                const text::Tokenizer& tokenizer, int64_t records) {
  class NoRows : public RowSink {
   public:
    void add(const Row&) override {}
  };
  NoRows sink;
  RowCollector collector(options, sink);
  const std::unique_ptr<RowBuilder> builder = make_row_builder(config, options, tokenizer);
  RecordReader reader = open_dataset(config);
  Record record;
  std::vector<Row> rows;
  for (int64_t i = 0; i < records && reader.next(record); ++i) {
    collector.add_record(record.copy);
    rows.clear();
    builder->build(record, rows);
    for (Row& row : rows) collector.add(std::move(row), record.where);
  }
  collector.end_dataset();
  return collector.summary();
}

Dataset load_datasets(std::span<const DatasetConfig> configs, const RowOptions& options,
                      const text::Tokenizer& tokenizer, const Preparation& preparation) {
  const auto rows = std::make_shared<MemoryRows>(schema_of(options.objective));
  const DatasetSummary summary = read_datasets(configs, options, tokenizer, preparation, *rows);
  return {RowTable(rows), summary};
}

namespace {

Json list_of(const std::vector<DatasetSummary::Answers>& by_dataset) {
  Json list = Json::array();
  for (const auto& [rows, with_end] : by_dataset) list.push_back({{"rows", rows}, {"with_end", with_end}});
  return list;
}

std::vector<DatasetSummary::Answers> answers_from_json(const Json& list) {
  std::vector<DatasetSummary::Answers> by_dataset;
  for (const Json& one : list) by_dataset.push_back({.rows = one.at("rows"), .with_end = one.at("with_end")});
  return by_dataset;
}

}  // namespace

Json to_json(const DatasetSummary& summary) {
  const auto& dropped = summary.dropped;
  return {{"rows_read", summary.rows_read},
          {"truncated", summary.truncated},
          {"rows", summary.rows},
          {"tokens", summary.tokens},
          {"tokens_cut", summary.tokens_cut},
          {"tokens_too_long", summary.tokens_too_long},
          {"left_out", to_json(summary.left_out)},
          {"joined_prompts", summary.joined_prompts},
          {"answers", list_of(summary.answers)},
          {"ends", summary.ends},
          {"lengths", to_json(summary.lengths)},
          {"dropped",
           {{"empty", dropped.empty},
            {"too_short", dropped.too_short},
            {"too_long", dropped.too_long},
            {"no_targets", dropped.no_targets},
            {"duplicate", dropped.duplicate}}}};
}

DatasetSummary summary_from_json(const Json& json) {
  const Json& dropped = json.at("dropped");
  return {.rows_read = json.at("rows_read"),
          .truncated = json.at("truncated"),
          .rows = json.at("rows"),
          .tokens = json.at("tokens"),
          .tokens_cut = json.at("tokens_cut"),
          .tokens_too_long = json.at("tokens_too_long"),
          .left_out = left_out_from_json(json.at("left_out")),
          .joined_prompts = json.at("joined_prompts"),
          .answers = answers_from_json(json.at("answers")),
          .ends = json.at("ends"),
          .lengths = lengths_from_json(json.at("lengths")),
          .dropped = {.empty = dropped.at("empty"),
                      .too_short = dropped.at("too_short"),
                      .too_long = dropped.at("too_long"),
                      .no_targets = dropped.at("no_targets"),
                      .duplicate = dropped.at("duplicate")}};
}

}  // namespace spillway::data
