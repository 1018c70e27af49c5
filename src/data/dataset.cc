#include "data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/text.h"
#include "data/files/record_reader.h"
#include "data/rows/row_builder.h"
#include "data/rows/row_pipeline.h"

namespace spillway::data {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

bool is_data_file(const fs::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".jsonl" || extension == ".json" || extension == ".ndjson" || extension == ".csv";
}

RecordFormat format_for(const DatasetConfig& config, const fs::path& path) {
  if (config.ds_type == "json") return RecordFormat::kJson;
  if (config.ds_type == "csv") return RecordFormat::kCsv;
  if (!config.ds_type.empty())
    throw input_error("ds_type", "expected json or csv, got {}; convert the data", quote(config.ds_type));
  return config.path == "csv" ? RecordFormat::kCsv : config.path == "json" ? RecordFormat::kJson : format_of(path);
}

// The data files of a folder; those named for the split where there are such.
std::vector<fs::path> files_in(const fs::path& folder, const std::string& split) {
  std::vector<fs::path> all, named;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.is_regular_file() || !is_data_file(entry.path())) continue;
    all.push_back(entry.path());
    if (entry.path().stem().string().starts_with(split)) named.push_back(entry.path());
  }
  std::vector<fs::path>& files = named.empty() ? all : named;
  if (files.empty())
    throw input_error(folder.string(),
                      "expected .jsonl, .json or .csv files in the folder, got none; put the data there");
  std::sort(files.begin(), files.end());
  return files;
}

std::string why_none(const DatasetSummary& summary) {
  const auto& dropped = summary.dropped;
  return fmt::format("{} rows read; {} empty, {} too short, {} too long, {} without targets", summary.rows_read,
                     dropped.empty, dropped.too_short, dropped.too_long, dropped.no_targets);
}

}  // namespace

std::vector<fs::path> dataset_files(const DatasetConfig& config) {
  const fs::path path = config.path;
  std::error_code ignored;
  if (!config.data_files.empty()) {
    // `path: json` with data_files is how the datasets library names a format.
    const bool is_format = (config.path == "json" || config.path == "csv") && !fs::exists(path, ignored);
    std::vector<fs::path> files;
    for (const std::string& name : config.data_files) files.push_back(is_format ? fs::path(name) : path / name);
    return files;
  }
  if (fs::is_directory(path, ignored)) return files_in(path, config.split);
  if (!fs::exists(path, ignored))
    throw input_error(
        config.path,
        "expected a local file or folder, got no such path; data sets of a hub are to be downloaded first");
  return {path};
}

DatasetSummary read_datasets(std::span<const DatasetConfig> configs, const RowOptions& options,
                             const Tokenizer& tokenizer, const Preparation& preparation, RowSink& sink) {
  RowCollector collector(options, sink);
  std::vector<std::unique_ptr<RowBuilder>> builders;
  for (const DatasetConfig& config : configs) builders.push_back(make_row_builder(config, options, tokenizer));
  RowPipeline pipeline(preparation.threads, collector, preparation.progress);
  for (size_t i = 0; i < configs.size(); ++i) {
    for (const fs::path& file : dataset_files(configs[i])) {
      RecordReader reader(file, format_for(configs[i], file));
      pipeline.read(reader, *builders[i]);
    }
  }
  pipeline.finish();
  if (collector.summary().rows == 0) {
    throw input_error(
        "datasets",
        "expected at least one row to train on, got none ({}); look at the data, sequence_len and roles_to_train",
        why_none(collector.summary()));
  }
  return collector.summary();
}

Dataset load_datasets(std::span<const DatasetConfig> configs, const RowOptions& options, const Tokenizer& tokenizer,
                      const Preparation& preparation) {
  const auto rows = std::make_shared<MemoryRows>();
  const DatasetSummary summary = read_datasets(configs, options, tokenizer, preparation, *rows);
  return {RowTable(rows), summary};
}

Json to_json(const DatasetSummary& summary) {
  const auto& dropped = summary.dropped;
  return {{"rows_read", summary.rows_read},
          {"truncated", summary.truncated},
          {"rows", summary.rows},
          {"tokens", summary.tokens},
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
          .dropped = {.empty = dropped.at("empty"),
                      .too_short = dropped.at("too_short"),
                      .too_long = dropped.at("too_long"),
                      .no_targets = dropped.at("no_targets"),
                      .duplicate = dropped.at("duplicate")}};
}

}  // namespace spillway::data
