// Selects and repeats the rows of a dataset by its options.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>

#include "data/dataset_options.h"

namespace spillway::data {

// Asked for each row of the split in turn: `skip` leaves out the first ones, `shards` deals out the others, and
// `weight` repeats or leaves out rows of the remaining ones. Not thread-safe.
class RowSelection {
 public:
  explicit RowSelection(const DatasetConfig& config)
      : skip_(config.skip), shards_(config.shards), shard_(config.shards_idx), weight_(config.weight) {}

  // Returns how many times the next row is used, perhaps 0; nothing if `skip` or `shards` leaves it out.
  [[nodiscard]] std::optional<int64_t> next() {
    const int64_t row = row_++ - skip_;
    if (row < 0 || (shards_ > 1 && row % shards_ != shard_)) return {};
    const int64_t before = copies_of(taken_++);
    return copies_of(taken_) - before;
  }

 private:
  // Returns the number of copies of the first `rows` rows; copies are spread evenly.
  [[nodiscard]] int64_t copies_of(int64_t rows) const {
    return static_cast<int64_t>(std::floor(static_cast<double>(rows) * weight_ + 1e-9));
  }

  int64_t skip_, shards_, shard_;
  double weight_;
  int64_t row_ = 0, taken_ = 0;  // of the split, and of the shard
};

}  // namespace spillway::data
