// The `split:` of a dataset, as the datasets library reads it: train, train[:10%], train[100:200]+test.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace spillway::data {

// An end of a slice: a row, or a percentage of all rows; a negative value counts from the end.
struct SliceEnd {
  int64_t value = 0;
  bool percent = false;
};

struct SplitSlice {
  std::string split;
  std::optional<SliceEnd> from, to;
  bool whole_percents = false;  // (pct1_dropremainder): a percent is the same number of rows everywhere

  // Returns true if rows must be counted to know the slice.
  [[nodiscard]] bool needs_count() const;
  // Returns the range [first, second) of `rows` rows, clipped to their number. Without a count, which is only allowed
  // if !needs_count(), the end may be the largest number. Throws InputError for whole percents of fewer than 100 rows.
  [[nodiscard]] std::pair<int64_t, int64_t> range(std::optional<int64_t> rows) const;
};

// Throws InputError that names the part which is not a split.
[[nodiscard]] std::vector<SplitSlice> parse_split(std::string_view text);

}  // namespace spillway::data
