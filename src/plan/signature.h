// The signature of an operation: all that decides its time (name, types and constants), in one line of text. The 30
// layers of a model have a few dozen signatures between them, so each can be measured (runtime/measure_operations.h).
#pragma once

#include <string>

#include "graph/graph.h"

namespace spillway {

// Returns "matmul(bf16[2048t, 576], bf16[192, 576], -) -> bf16[2048t, 192] transpose_b=1". Counts equal operands in a
// row: "f32[1] x 210". Leaves out which stream of random numbers an operation draws from, which
// experts it multiplies by, and which of several micro-batches it belongs to.
[[nodiscard]] std::string signature_of(const Graph& graph, OpId id);

}  // namespace spillway
