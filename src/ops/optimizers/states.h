// The states that an optimizer keeps for a weight: ordinary persistent values, whose shapes follow from the weight's.
// See docs/decisions/0018-states-in-blocks.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/builder.h"
#include "ops/row_slice.h"
#include "tensor/dtype.h"

namespace spillway::ops {

// The elements of the flat tensor that share a scale.
constexpr int64_t kStateBlock = 256;

// The part of the weight that one element of a state belongs to.
enum class StateExtent : uint8_t {
  kElement,
  kPair,    // two elements: codes of 4 bits, the first in the high half
  kBlock,   // kStateBlock elements of the flat tensor; the last block may be short
  kRow,     // of the outermost axis
  kColumn,  // an element of a row
};

// Returns how many elements of the flat weight an element of a state belongs to; 0 for rows and columns.
[[nodiscard]] constexpr int64_t elems_of(StateExtent extent) {
  return extent == StateExtent::kElement ? 1
         : extent == StateExtent::kPair  ? 2
         : extent == StateExtent::kBlock ? kStateBlock
                                         : 0;
}

struct StateSpec {
  std::string name;  // the name in checkpoints: "exp_avg"
  DType dtype = DType::kF32;
  StateExtent extent = StateExtent::kElement;
  bool operator==(const StateSpec&) const = default;
};

// The storage of a moment's elements.
enum class StateStorage : uint8_t { kF32, kBf16, kCodes8, kCodes4 };

// The states of a weight, in their order. All begin as zero bytes.
struct StateSchema {
  std::vector<StateSpec> values;
  // Slices begin at elements that are multiples of it. 0: the weight is one slice.
  int64_t slice_unit = 1;

  // Adds a moment of the weight's elements: one value, or, as codes, "<name>" and "<name>_absmax".
  void add(std::string_view name, StateStorage storage = StateStorage::kF32);
  // Adds a moment of a matrix of which the means of rows and of columns are kept: "<name>_row" and "<name>_col".
  void add_factored(std::string_view name);
};

// The weight that states are kept for.
struct TrainedTensor {
  Shape shape;
  bool in_block = false;  // of a layer; not embedding, head or final norm
};

[[nodiscard]] TrainedTensor trained_tensor(Builder& builder, ValueId weight);

// Returns the type of a state for the slice of a weight. REQUIRES: the slice lies in the weight.
[[nodiscard]] ValueType type_of(const StateSpec& spec, const RowSlice& slice, const Shape& weight);

}  // namespace spillway::ops
