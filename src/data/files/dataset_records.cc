#include "data/files/dataset_records.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "data/files/dataset_files.h"
#include "data/files/row_selection.h"
#include "data/files/split_slice.h"

namespace spillway::data {
namespace {

namespace fs = std::filesystem;

// The files of a split, one after the other.
class FilesOfSplit {
 public:
  FilesOfSplit(const DatasetConfig& config, std::string_view split)
      : config_(config), files_(dataset_files(config, split)) {}

  bool next(Record& record) {
    for (;;) {
      if (!reader_) {
        if (file_ == files_.size()) return false;
        reader_.emplace(files_[file_], dataset_format(config_, files_[file_]));
        ++file_;
      }
      if (reader_->next(record)) return true;
      reader_.reset();
    }
  }

 private:
  const DatasetConfig& config_;
  std::vector<fs::path> files_;
  size_t file_ = 0;
  std::optional<RecordReader> reader_;
};

int64_t count_rows(const DatasetConfig& config, const std::string& split) {
  FilesOfSplit files(config, split);
  Record record;
  int64_t rows = 0;
  while (files.next(record)) ++rows;
  return rows;
}

// Takes the columns of a dataset's option `columns`; a row may lack one that others have.
class ColumnChoice {
 public:
  explicit ColumnChoice(const DatasetConfig& config) : config_(config) {}

  void apply(Record& record) {
    if (config_.columns.empty()) return;
    nlohmann::ordered_json kept = nlohmann::ordered_json::object();
    for (const std::string& column : config_.columns) {
      const auto found = record.fields.find(column);
      if (found == record.fields.end()) continue;
      seen_.insert(column);
      kept[column] = std::move(*found);
    }
    record.fields = std::move(kept);
    ++rows_;
  }

  // Throws InputError for a column that no row had.
  void check() const {
    for (const std::string& column : config_.columns) {
      if (rows_ > 0 && !seen_.contains(column))
        throw input_error("columns", "expected columns of {}, got {}, which none of its {} rows has; correct it",
                          config_.path, quote(column), rows_);
    }
  }

 private:
  const DatasetConfig& config_;
  std::set<std::string> seen_;
  int64_t rows_ = 0;
};

class DatasetRecords : public RecordParser {
 public:
  explicit DatasetRecords(DatasetConfig config, int64_t rows = std::numeric_limits<int64_t>::max())
      : config_(std::move(config)), slices_(slices_of(config_)), selection_(config_), left_(rows) {}

  bool next(Record& record) override {
    if (left_ == 0 || !next_selected(record)) {
      columns_.check();
      return false;
    }
    --left_;
    return true;
  }

 private:
  bool next_selected(Record& record) {
    while (copies_ == 0) {
      if (!next_of_slices(kept_)) return false;
      copies_ = selection_.next().value_or(0);
      if (copies_ > 0) columns_.apply(kept_);
      kept_.copy = 0;
    }
    --copies_;
    record = copies_ == 0 ? std::move(kept_) : kept_;
    ++kept_.copy;
    return true;
  }

  bool next_of_slices(Record& record) {
    for (;;) {
      if (!files_) {
        if (slice_ == slices_.size()) return false;
        open(slices_[slice_++]);
      }
      while (at_ < end_ && files_->next(record)) {
        if (at_++ >= begin_) return true;
      }
      files_.reset();
    }
  }

  void open(const SplitSlice& slice) {
    std::optional<int64_t> rows;
    if (slice.needs_count()) rows = count_rows(config_, slice.split);
    std::tie(begin_, end_) = slice.range(rows);
    at_ = 0;
    files_.emplace(config_, slice.split);
  }

  DatasetConfig config_;
  std::vector<SplitSlice> slices_;
  size_t slice_ = 0;
  std::optional<FilesOfSplit> files_;
  int64_t begin_ = 0, end_ = 0, at_ = 0;  // of the slice
  RowSelection selection_;
  ColumnChoice columns_{config_};
  int64_t left_;  // that are still to be taken
  Record kept_;
  int64_t copies_ = 0;  // of kept_, still to come
};

// Returns the number of rows of each dataset that its fraction takes.
std::vector<int64_t> rows_by_fraction(std::span<const DatasetConfig> configs) {
  double sum = 0, total = std::numeric_limits<double>::infinity();
  for (const DatasetConfig& config : configs) sum += config.fraction.value();
  for (const DatasetConfig& config : configs) {
    const double weight = *config.fraction / sum;
    if (weight == 0) continue;
    RecordReader reader = open_dataset(config);
    int64_t rows = 0;
    for (Record record; reader.next(record);) ++rows;
    total = std::min(total, static_cast<double>(rows) / weight);
  }
  std::vector<int64_t> rows;
  // Rounds halves to even, as Python does.
  for (const DatasetConfig& config : configs)
    rows.push_back(static_cast<int64_t>(std::nearbyint(*config.fraction / sum * total)));
  return rows;
}

}  // namespace

RecordReader open_dataset(const DatasetConfig& config) {
  return RecordReader(std::make_unique<DatasetRecords>(config));
}

std::vector<RecordReader> open_datasets(std::span<const DatasetConfig> configs) {
  std::vector<RecordReader> readers;
  if (configs.empty() || !configs.front().fraction) {
    for (const DatasetConfig& config : configs) readers.push_back(open_dataset(config));
    return readers;
  }
  const std::vector<int64_t> rows = rows_by_fraction(configs);
  for (size_t i = 0; i < configs.size(); ++i)
    readers.emplace_back(std::make_unique<DatasetRecords>(configs[i], rows[i]));
  return readers;
}

}  // namespace spillway::data
