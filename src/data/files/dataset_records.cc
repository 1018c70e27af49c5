#include "data/files/dataset_records.h"

#include <utility>
#include <vector>

#include "base/error.h"
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

class DatasetRecords : public RecordParser {
 public:
  explicit DatasetRecords(DatasetConfig config)
      : config_(std::move(config)), slices_(parse_split(config_.split)), selection_(config_) {}

  bool next(Record& record) override {
    while (copies_ == 0) {
      if (!next_of_slices(kept_)) return false;
      copies_ = selection_.next().value_or(0);
    }
    --copies_;
    record = copies_ == 0 ? std::move(kept_) : kept_;
    return true;
  }

 private:
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
  Record kept_;
  int64_t copies_ = 0;  // of kept_, still to come
};

}  // namespace

RecordReader open_dataset(const DatasetConfig& config) {
  return RecordReader(std::make_unique<DatasetRecords>(config));
}

}  // namespace spillway::data
