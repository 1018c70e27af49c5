// Items by group in one array: the content of a vector of vectors, without an allocation for each group.
#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "base/index.h"
#include "base/sizes.h"

namespace spillway {

class Groups {
 public:
  // Groups items 0, 1, ..., in this order within each group. `group_of(item)` returns -1 for an item in no group.
  template <typename GroupOf>
  Groups(size_t groups, size_t items, const GroupOf& group_of) : ends_(groups + 1, 0) {
    for (size_t i = 0; i < items; ++i) {
      if (const int32_t group = group_of(i); group >= 0) ++ends_[static_cast<size_t>(group) + 1];
    }
    std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
    resize(items_, ends_.back());
    std::vector<int32_t> next(ends_.begin(), ends_.end() - 1);
    for (size_t i = 0; i < items; ++i) {
      if (const int32_t group = group_of(i); group >= 0) nth(items_, nth(next, group)++) = static_cast<int32_t>(i);
    }
  }
  Groups() = default;

  // Returns the items of all groups, one group after another.
  [[nodiscard]] std::span<const int32_t> all() const { return items_; }
  [[nodiscard]] std::span<const int32_t> operator[](size_t group) const {
    return subspan_of(items_, ends_[group], ends_[group + 1] - ends_[group]);
  }

 private:
  std::vector<int32_t> ends_;  // by group, after that of the one before
  std::vector<int32_t> items_;
};

}  // namespace spillway
