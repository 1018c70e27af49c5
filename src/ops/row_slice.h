// A slice of a weight along its rows: the part that one optimizer operation updates, so that the states of a large
// weight can be several values of bounded size. Weight and gradient are whole; the states hold the rows of the slice
// alone.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backend/kernel.h"
#include "graph/operation.h"

namespace spillway::ops {

// The rows [first, first + count) of the outermost axis. In an operation: its attributes "first_row" and "rows".
struct RowSlice {
  int64_t first = 0;
  int64_t count = 0;
  bool operator==(const RowSlice&) const = default;
};

[[nodiscard]] RowSlice slice_of(const Attributes& attributes);

// Returns the fewest slices of about equal size of which none exceeds `max_elems`, all of them beginning at elements
// that are multiples of `unit`; if the fewest rows for that exceed it, slices of those. `unit` 0: one slice.
[[nodiscard]] std::vector<RowSlice> slice_rows(const Shape& weight, int64_t max_elems, int64_t unit = 1);

// Returns the shape of a state for the slice of a weight. REQUIRES: the slice lies in the weight.
[[nodiscard]] Shape shape_of(const RowSlice& slice, const Shape& weight);

// The elements of a slice in the weight: [begin, end).
struct ElementRange {
  int64_t begin = 0;
  int64_t end = 0;
};
[[nodiscard]] ElementRange elements_of(const RowSlice& slice, const Shape& weight);

// Returns the cost of moving every operand once through memory; operands of the whole weight's shape (which inputs[0]
// has) count with the slice's share.
[[nodiscard]] Cost slice_cost(TypeList inputs, TypeList outputs, const Attributes& attributes);

// Copies the rows outside of the slice from one version of a weight to the next; does nothing if they share memory.
void copy_other_rows(const TensorView& from, const TensorView& to, const ElementRange& slice, ThreadPool& threads);

}  // namespace spillway::ops
