// The part of a tensor that a rank has.
#pragma once

#include <algorithm>

#include "graph/graph.h"
#include "tensor/cut.h"

namespace spillway::ops {

// Returns the type of a rank's part of a tensor, flat, with room for the largest of all parts (tensor/cut.h).
[[nodiscard]] inline ValueType part_type(const ValueType& whole, int ranks) {
  return {whole.dtype, {cut_of(whole.shape.elems(), ranks).part_elems}};
}

// Returns the bytes that each rank sends, and receives, where every rank's tensor goes to its parts, or the parts to
// every rank.
[[nodiscard]] inline double sent_bytes(const ValueType& whole, const ValueType& part) {
  return static_cast<double>(std::max<int64_t>(0, whole.bytes() - part.bytes()));
}

}  // namespace spillway::ops
