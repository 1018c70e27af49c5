// The part of a tensor that a rank has.
#pragma once

#include "graph/graph.h"
#include "ops/row_slice.h"
#include "tensor/cut.h"

namespace spillway::ops {

// Returns the type of a rank's part of a tensor, flat, with room for the largest of all parts (tensor/cut.h).
[[nodiscard]] inline ValueType part_type(const ValueType& whole, int ranks, int64_t unit = kCutBlock) {
  return {whole.dtype, {cut_of(whole.shape.elems(), ranks, unit).part_elems}};
}

// Returns the most bytes that a rank of a group sends where every rank's tensor goes to its parts, or gets where the
// parts go to every rank: all but the smallest part.
[[nodiscard]] inline double exchanged_bytes(const Cut& cut, DType dtype) {
  return static_cast<double>((cut.elems - cut.count(cut.ranks - 1)) * size_of(dtype));
}

// The rows of a tensor that an operation works on, as its attributes say, and their cut over the ranks.
struct CutRows {
  ElementRange range;
  Cut cut;
};
[[nodiscard]] inline CutRows cut_rows(const Attributes& attributes, const Shape& whole) {
  const ElementRange range = elements_of(slice_of(attributes), whole);
  return {range, cut_of(range.end - range.begin, static_cast<int>(attributes.integer("ranks")))};
}
[[nodiscard]] inline Attributes attributes_of(const RowSlice& rows, int ranks) {
  return {{"ranks", int64_t{ranks}}, {"first_row", rows.first}, {"rows", rows.count}};
}

}  // namespace spillway::ops
