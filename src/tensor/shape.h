// The extents of a tensor, outermost first, at most five. A regular value without allocation.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/index.h"

namespace spillway {

class Shape {
 public:
  static constexpr int kMaxRank = 5;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims) {
    SPILLWAY_CHECK(static_cast<int>(dims.size()) <= kMaxRank, "rank {}", dims.size());
    for (const int64_t dim : dims) nth(dims_, rank_++) = dim;
  }

  [[nodiscard]] int rank() const { return rank_; }
  // Returns an extent. Negative axes count from the end.
  [[nodiscard]] int64_t operator[](int axis) const { return nth(dims_, axis < 0 ? axis + rank_ : axis); }
  void set(int axis, int64_t dim) { nth(dims_, axis < 0 ? axis + rank_ : axis) = dim; }
  // Returns the number of elements; 1 for rank 0.
  [[nodiscard]] int64_t elems() const {
    int64_t product = 1;
    for (int axis = 0; axis < rank_; ++axis) product *= nth(dims_, axis);
    return product;
  }
  // Returns the extents in the form that files and JSON use.
  [[nodiscard]] std::vector<int64_t> dims() const { return {dims_.begin(), dims_.begin() + rank_}; }
  bool operator==(const Shape&) const = default;

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

// Returns text such as "[2048, 576]".
[[nodiscard]] std::string to_string(const Shape& shape);

}  // namespace spillway
