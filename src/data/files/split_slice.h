// The `split:` of a dataset, as the datasets library reads it: train, train[:10%], train[100:200]+test.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace spillway::data {

// One end of a slice: a row, or a percentage of all rows; below 0 it counts from the end.
struct SliceEnd {
  int64_t value = 0;
  bool percent = false;
};

struct SplitSlice {
  std::string split;
  std::optional<SliceEnd> from, to;
  bool whole_percents = false;  // (pct1_dropremainder): a percent is the same number of rows everywhere

  // Whether rows must be counted before the slice is known.
  [[nodiscard]] bool needs_count() const;
  // Rows [first, second) of `rows`, as far as there are so many; without a count only where !needs_count(), and the end
  // may be the largest number. Throws InputError for whole percents of fewer than 100 rows.
  [[nodiscard]] std::pair<int64_t, int64_t> range(std::optional<int64_t> rows) const;
};

// Throws InputError naming what is not a split.
[[nodiscard]] std::vector<SplitSlice> parse_split(std::string_view text);

}  // namespace spillway::data
