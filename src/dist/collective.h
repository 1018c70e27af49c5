// The arguments of a collective, an operation that all ranks of a job execute together.
#pragma once

#include <span>

#include "dist/peers.h"
#include "tensor/view.h"

namespace spillway {

class Attributes;  // graph/attributes.h

// The operands are in memory that the peers take. An output may share memory with an input as its OpDef's in_place
// allows.
struct CollectiveArgs {
  std::span<const TensorView> inputs;
  std::span<const TensorView> outputs;
  const Attributes& attributes;
  Peers& peers;
  int contributors = 0;  // ranks 0 to contributors - 1 add to a sum
};

}  // namespace spillway
