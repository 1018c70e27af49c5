// Collects built rows, applies the length rules, and counts the outcomes.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "data/dataset_options.h"
#include "data/rows/left_out_parts.h"
#include "data/rows/length_tally.h"
#include "data/rows/row_table.h"
#include "data/rows/truncation.h"
#include "io/checksum.h"

namespace spillway::data {

struct DatasetSummary {
  int64_t rows_read = 0;  // records of the files
  int64_t truncated = 0;
  int64_t rows = 0;                             // that are kept
  int64_t tokens = 0;                           // of the rows that are kept
  int64_t tokens_cut = 0, tokens_too_long = 0;  // that truncated rows lost; of rows that are dropped as too long
  LeftOutParts left_out;                        // of the rows that are kept
  int64_t joined_prompts = 0;                   // rows of these whose Row::joins_prompt is set
  // The rows of a dataset that have an answer, and those of them where the answer's end is learned.
  struct Answers {
    int64_t rows = 0, with_end = 0;
    bool operator==(const Answers&) const = default;
  };
  std::vector<Answers> answers;
  std::set<int32_t> ends;  // tokens that end answers and are learned
  LengthTally lengths;     // of all rows, before anything is cut or dropped; of preferences with the longer completion
  struct Dropped {
    int64_t empty = 0, too_short = 0, too_long = 0, no_targets = 0, duplicate = 0;
  } dropped;

  [[nodiscard]] int64_t dropped_rows() const {
    return dropped.empty + dropped.too_short + dropped.too_long + dropped.no_targets + dropped.duplicate;
  }
};

// Collects rows. Preference rows come joined, and are cut and counted by their parts. Not thread-safe. Borrows the
// sink.
class RowCollector {
 public:
  RowCollector(const RowOptions& options, RowSink& sink);

  // `copy` is Record::copy.
  void add_record(int64_t copy);
  // Adds a row of the last record. Throws InputError at `where` for a row that is too long, if the options say so.
  void add(Row row, std::string_view where);
  // Call it after the last record of a dataset, whose answers are counted apart. Where pairs become unpaired rows, TRL
  // takes the chosen completions of every 1000 records before the rejected ones.
  void end_dataset();
  [[nodiscard]] const DatasetSummary& summary() const { return summary_; }

 private:
  struct HashOf {
    size_t operator()(const Hash128& hash) const { return hash.low; }
  };
  // Returns the hash of ids and columns.
  [[nodiscard]] Hash128 hash_of(const Row& row);
  // Returns the length before it is cut.
  [[nodiscard]] int64_t length_of(const Row& row) const;
  void take(Row row, std::string_view where);
  void count_ends(const Row& row);
  void take_later();

  std::function<Fit(Row& row, std::string_view where)> fit_;
  Objective objective_;
  bool deduplicates_;
  RowSink& sink_;
  DatasetSummary summary_;
  int64_t rows_of_record_ = 0, records_ = 0;  // of the dataset
  int64_t copy_ = 0;                          // Record::copy of the last record
  DatasetSummary::Answers answers_;           // of the dataset
  std::vector<std::pair<Row, std::string>> later_;
  std::unordered_set<Hash128, HashOf> seen_;
  std::vector<int32_t> hashed_;  // of one row
};

}  // namespace spillway::data
