#include "data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "base/text.h"
#include "data/files/record_reader.h"
#include "data/rows/row_builder.h"
#include "io/file.h"

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

// Two independent 64-bit hashes of ids and labels: enough that no two of 2^40 rows meet by chance.
struct RowHash {
  uint64_t first = 0x9E3779B97F4A7C15, second = 0xC2B2AE3D27D4EB4F;
  void add(uint32_t value) {
    first = (first ^ value) * 0xFF51AFD7ED558CCD;
    first ^= first >> 32;
    second = (second + value) * 0xC4CEB9FE1A85EC53;
    second ^= second >> 29;
  }
  bool operator==(const RowHash&) const = default;
};
struct RowHashOf {
  size_t operator()(const RowHash& hash) const { return hash.first; }
};
RowHash hash_of(const Row& row) {
  RowHash hash;
  for (const int32_t id : row.input_ids) hash.add(static_cast<uint32_t>(id));
  for (const int32_t label : row.labels) hash.add(static_cast<uint32_t>(label));
  return hash;
}

// Takes built rows in, by the length rules.
class Collector {
 public:
  explicit Collector(const RowOptions& options) : options_(options) {}

  void add(Row row, const std::string& where) {
    DatasetSummary& summary = dataset.summary;
    if (row.input_ids.empty()) {
      ++summary.dropped.empty;
      return;
    }
    if (!fit(row, where)) return;
    row.labels.front() = kIgnoredLabel;
    const bool no_targets =
        std::all_of(row.labels.begin(), row.labels.end(), [](int32_t label) { return label == kIgnoredLabel; });
    const bool keep_anyway = options_.length_rules == LengthRules::kTrl && options_.packing;
    if (no_targets && !keep_anyway) {
      ++summary.dropped.no_targets;
      return;
    }
    if (options_.deduplicate && !seen_.insert(hash_of(row)).second) {
      ++summary.dropped.duplicate;
      return;
    }
    summary.tokens += static_cast<int64_t>(row.input_ids.size());
    dataset.rows.push_back(std::move(row));
  }

  Dataset dataset;

 private:
  // Cuts the row to length; false where it is dropped.
  bool fit(Row& row, const std::string& where) {
    const auto length = static_cast<int64_t>(row.input_ids.size());
    const bool axolotl = options_.length_rules == LengthRules::kAxolotl;
    if (axolotl && length < options_.min_sample_len) {
      ++dataset.summary.dropped.too_short;
      return false;
    }
    if (length <= options_.sequence_len) return true;
    if (axolotl && options_.excess_length_strategy == ExcessLength::kRaise) {
      throw input_error(where,
                        "expected a row of at most {} tokens, got {}; raise sequence_len or set "
                        "excess_length_strategy: drop or truncate",
                        options_.sequence_len, length);
    }
    if (axolotl && options_.excess_length_strategy == ExcessLength::kDrop) {
      ++dataset.summary.dropped.too_long;
      return false;
    }
    const auto cut = [&](std::vector<int32_t>& values) {
      if (options_.truncation_mode == TruncationMode::kKeepEnd)
        values.erase(values.begin(), values.end() - options_.sequence_len);
      values.resize(static_cast<size_t>(options_.sequence_len));
    };
    cut(row.input_ids);
    cut(row.labels);
    ++dataset.summary.truncated;
    return true;
  }

  const RowOptions& options_;
  std::unordered_set<RowHash, RowHashOf> seen_;
};

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

Dataset load_datasets(std::span<const DatasetConfig> configs, const RowOptions& options, const Tokenizer& tokenizer) {
  Collector collector(options);
  std::vector<Row> built;
  Record record;
  for (const DatasetConfig& config : configs) {
    const auto builder = make_row_builder(config, options, tokenizer);
    for (const fs::path& file : dataset_files(config)) {
      RecordReader reader(file, format_for(config, file));
      while (reader.next(record)) {
        ++collector.dataset.summary.rows_read;
        built.clear();
        builder->build(record, built);
        for (Row& row : built) collector.add(std::move(row), record.where);
      }
    }
  }
  if (collector.dataset.rows.empty()) {
    throw input_error(
        "datasets",
        "expected at least one row to train on, got none ({}); look at the data, sequence_len and roles_to_train",
        why_none(collector.dataset.summary));
  }
  return std::move(collector.dataset);
}

void write_rows(const fs::path& path, std::span<const Row> rows, std::span<const std::vector<int64_t>> lines) {
  AtomicFile file(path);
  const auto append = [](std::string& list, int64_t number) {
    if (list.size() > 1) list += ", ";
    list += std::to_string(number);
  };
  for (const std::vector<int64_t>& line : lines) {
    std::string ids = "[", labels = "[", positions = "[", lengths = "[";
    for (const int64_t index : line) {
      const Row& row = rows[static_cast<size_t>(index)];
      for (size_t i = 0; i < row.input_ids.size(); ++i) {
        append(ids, row.input_ids[i]);
        append(labels, i == 0 ? kIgnoredLabel : row.labels[i]);
        append(positions, static_cast<int64_t>(i));
      }
      append(lengths, static_cast<int64_t>(row.input_ids.size()));
    }
    file.append(fmt::format("{{\"input_ids\": {}], \"labels\": {}], \"position_ids\": {}], \"seq_lengths\": {}]}}\n",
                            ids, labels, positions, lengths));
  }
  file.commit();
}

Json to_json(const DatasetSummary& summary) {
  const auto& dropped = summary.dropped;
  return {{"rows_read", summary.rows_read},
          {"truncated", summary.truncated},
          {"tokens", summary.tokens},
          {"dropped",
           {{"empty", dropped.empty},
            {"too_short", dropped.too_short},
            {"too_long", dropped.too_long},
            {"no_targets", dropped.no_targets},
            {"duplicate", dropped.duplicate}}}};
}

}  // namespace spillway::data
