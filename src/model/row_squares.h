// The squared norms of a weight's rows, in the precision of training, from which DoRA computes its norms. They do not
// change, so they are a frozen value of the job that is computed when the weight is loaded.
#pragma once

#include <span>
#include <vector>

#include "model/parameters.h"
#include "runtime/value_store.h"

namespace spillway {

// Adds up squares, in f64 and in an order that depends only on the row's length.
class RowSquares {
 public:
  RowSquares(int64_t rows, int64_t columns);
  // Adds the next elements; calls need not be aligned to rows.
  void add(std::span<const float> elements);
  [[nodiscard]] std::vector<float> result() const;

 private:
  static constexpr int64_t kSums = 8;  // of a row: sums of every 8th element
  int64_t columns_, next_ = 0;
  std::vector<double> sums_;
};

// Fills `squares`, of kRowSquares, from the parts of `weight`, which are loaded.
void load_row_squares(const Parameter& squares, const Parameter& weight, ValueStore& store);

}  // namespace spillway
