// Takes built rows in, by the length rules, and counts what becomes of them.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_set>

#include "data/dataset_options.h"
#include "data/rows/row_table.h"
#include "data/rows/truncation.h"

namespace spillway::data {

struct DatasetSummary {
  int64_t rows_read = 0;  // records of the files
  int64_t truncated = 0;
  int64_t rows = 0;    // that are kept
  int64_t tokens = 0;  // of the rows that are kept
  struct Dropped {
    int64_t empty = 0, too_short = 0, too_long = 0, no_targets = 0, duplicate = 0;
  } dropped;

  [[nodiscard]] int64_t dropped_rows() const {
    return dropped.empty + dropped.too_short + dropped.too_long + dropped.no_targets + dropped.duplicate;
  }
};

// One thread. Borrows the sink.
class RowCollector {
 public:
  RowCollector(const RowOptions& options, RowSink& sink)
      : rule_(length_rule(options)), deduplicates_(options.deduplicate), sink_(sink) {}

  void add_record() { ++summary_.rows_read; }
  // Throws InputError at `where` for a row that is longer than may be.
  void add(Row row, std::string_view where);
  [[nodiscard]] const DatasetSummary& summary() const { return summary_; }

 private:
  // Two independent 64-bit hashes of ids and labels: enough that no two of 2^40 rows meet by chance.
  struct RowHash {
    uint64_t first = 0x9E3779B97F4A7C15, second = 0xC2B2AE3D27D4EB4F;
    void add(uint32_t value);
    bool operator==(const RowHash&) const = default;
  };
  struct HashOf {
    size_t operator()(const RowHash& hash) const { return hash.first; }
  };
  static RowHash hash_of(const Row& row);

  LengthRule rule_;
  bool deduplicates_;
  RowSink& sink_;
  DatasetSummary summary_;
  std::unordered_set<RowHash, HashOf> seen_;
};

}  // namespace spillway::data
