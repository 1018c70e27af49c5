// The part of a tensor that a rank has.
#pragma once

#include "graph/graph.h"
#include "tensor/cut.h"

namespace spillway::ops {

// Returns the type of a rank's part of a tensor, flat, with room for the largest of all parts (tensor/cut.h).
[[nodiscard]] inline ValueType part_type(const ValueType& whole, int ranks) {
  return {whole.dtype, {cut_of(whole.shape.elems(), ranks).part_elems}};
}

// Returns the most bytes that a rank sends where every rank's tensor goes to its parts, or gets where the parts go to
// every rank: all but the smallest part.
[[nodiscard]] inline double exchanged_bytes(const ValueType& whole, int ranks) {
  const Cut cut = cut_of(whole.shape.elems(), ranks);
  return static_cast<double>((cut.elems - cut.count(ranks - 1)) * size_of(whole.dtype));
}

}  // namespace spillway::ops
