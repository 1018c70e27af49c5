#include "data/preferences.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_set>

#include "base/error.h"
#include "data/files/dataset_records.h"
#include "data/rows/truncation.h"
#include "io/file.h"

namespace spillway::data {
namespace {

using Json = nlohmann::ordered_json;

// What the datasets library maps at once.
constexpr int64_t kMapBatchRecords = 1000;

PreferenceRule rule_of(const RowOptions& options) {
  PreferenceRule rule = preference_rule(options);
  if (options.objective == Objective::kReward) {
    rule.length_rules = LengthRules::kAxolotl;
    if (rule.long_rows != LongRows::kRaise) rule.long_rows = LongRows::kDrop;
  }
  return rule;
}

class Collector {
 public:
  explicit Collector(const RowOptions& options) : rule_(rule_of(options)), deduplicates_(options.deduplicate) {}

  void add(PreferenceRow row, const std::string& where) {
    DatasetSummary& summary = result.summary;
    const Fit fit = fit_preference(row.prompt_ids, row.completions, rule_, where);
    switch (fit) {
      case Fit::kEmpty:
        ++summary.dropped.empty;
        return;
      case Fit::kTooShort:
        ++summary.dropped.too_short;
        return;
      case Fit::kTooLong:
        ++summary.dropped.too_long;
        return;
      case Fit::kNoTargets:
        ++summary.dropped.no_targets;
        return;
      case Fit::kWhole:
      case Fit::kTruncated:
        break;
    }
    if (deduplicates_ && !seen_.insert(key_of(row)).second) {
      ++summary.dropped.duplicate;
      return;
    }
    summary.truncated += fit == Fit::kTruncated ? 1 : 0;
    ++summary.rows;
    summary.tokens += count_tokens(std::span(&row, 1));
    result.rows.push_back(std::move(row));
  }

  Preferences result;

 private:
  // Everything that makes a row what it is.
  static std::string key_of(const PreferenceRow& row) {
    std::string key = row.label ? "1" : "0";
    const auto add = [&](const std::vector<int32_t>& ids) {
      key.append(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int32_t));
      key.append(sizeof(int32_t), '\xFF');
    };
    add(row.prompt_ids);
    for (const auto& completion : row.completions) add(completion);
    return key;
  }

  PreferenceRule rule_;
  bool deduplicates_;
  std::unordered_set<std::string> seen_;
};

void read_dataset(const DatasetConfig& config, const RowOptions& options, const Tokenizer& tokenizer,
                  Collector& collector) {
  const PreferenceBuilder builder(config, options, tokenizer);
  RecordReader reader = open_dataset(config);
  Record record;
  std::vector<PreferenceRow> built;
  std::vector<std::pair<PreferenceRow, std::string>> later;  // second rows of their records
  const auto flush = [&] {
    for (auto& [row, where] : later) collector.add(std::move(row), where);
    later.clear();
  };
  for (int64_t records = 1; reader.next(record); ++records) {
    ++collector.result.summary.rows_read;
    built.clear();
    builder.build(record, built);
    collector.add(std::move(built.front()), record.where);
    if (built.size() > 1) later.emplace_back(std::move(built.back()), record.where);
    if (records % kMapBatchRecords == 0) flush();
  }
  flush();
}

template <typename Action>
void for_ids(std::span<const PreferenceRow> rows, const Action& action) {
  for (const PreferenceRow& row : rows) {
    for (const auto& completion : row.completions) {
      action(row.prompt_ids);
      action(completion);
    }
  }
}

}  // namespace

Preferences load_preferences(std::span<const DatasetConfig> configs, const RowOptions& options,
                             const Tokenizer& tokenizer) {
  Collector collector(options);
  for (const DatasetConfig& config : configs) read_dataset(config, options, tokenizer, collector);
  const DatasetSummary& summary = collector.result.summary;
  if (summary.rows == 0) {
    throw input_error("datasets",
                      "expected at least one row to train on, got none ({} read, {} too long, {} without room for a "
                      "completion); look at the data and sequence_len",
                      summary.rows_read, summary.dropped.too_long, summary.dropped.no_targets);
  }
  return std::move(collector.result);
}

int32_t largest_id(std::span<const PreferenceRow> rows) {
  int32_t largest = -1;
  for_ids(rows, [&](const std::vector<int32_t>& ids) {
    for (const int32_t id : ids) largest = std::max(largest, id);
  });
  return largest;
}

int64_t count_tokens(std::span<const PreferenceRow> rows) {
  int64_t tokens = 0;
  for_ids(rows, [&](const std::vector<int32_t>& ids) { tokens += std::ssize(ids); });
  return tokens;
}

void write_preferences(const std::filesystem::path& path, std::span<const PreferenceRow> rows) {
  AtomicFile file(path);
  for (const PreferenceRow& row : rows) {
    Json line{{"prompt_ids", row.prompt_ids}};
    if (row.completions.size() == 1) {
      line["completion_ids"] = row.completions[0];
      line["label"] = row.label;
    } else {
      line["chosen_ids"] = row.completions[0];
      line["rejected_ids"] = row.completions[1];
    }
    file.append(line.dump() + "\n");
  }
  file.commit();
}

}  // namespace spillway::data
