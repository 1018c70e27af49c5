// The widths of the parts, and the number of groups of columns, as attributes.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/attributes.h"
#include "ops/split_columns/split_columns.h"

namespace spillway::ops {

// As attributes have them: the width of each of a few parts, or the first one's and the number of parts that are alike.
class ColumnWidths {
 public:
  explicit ColumnWidths(const Attributes& attributes) : alike_(attributes.integer_or(kAlike, 0)) {
    for (const std::string_view name : kNames) {
      const int64_t width = attributes.integer_or(name, 0);
      if (width > 0) widths_[own_++] = width;
    }
  }

  // Adds to attributes what the constructor reads.
  static void add(const std::vector<int64_t>& widths, Attributes& attributes) {
    const bool are_many = widths.size() > kMaxColumnParts;
    for (size_t i = 0; i < (are_many ? 1 : widths.size()); ++i) attributes.add(kNames[i], widths[i]);
    if (are_many) attributes.add(kAlike, static_cast<int64_t>(widths.size()));
  }

  [[nodiscard]] size_t size() const { return alike_ > 0 ? static_cast<size_t>(alike_) : own_; }
  [[nodiscard]] int64_t operator[](size_t part) const { return widths_[alike_ > 0 ? 0 : part]; }
  [[nodiscard]] int64_t sum() const {
    int64_t sum = 0;
    for (size_t part = 0; part < size(); ++part) sum += (*this)[part];
    return sum;
  }

 private:
  static constexpr std::array<std::string_view, kMaxColumnParts> kNames = {"width_0", "width_1", "width_2"};
  static constexpr std::string_view kAlike = "parts";

  std::array<int64_t, kMaxColumnParts> widths_ = {};
  size_t own_ = 0;
  int64_t alike_ = 0;
};

[[nodiscard]] inline int64_t groups_of(const Attributes& attributes) { return attributes.integer_or("groups", 1); }

}  // namespace spillway::ops
