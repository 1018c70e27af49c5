// What decides how long an operation takes: its name, its types and its constants, in one line of text. The 30 layers
// of a model have a few dozen signatures between them, so each can be measured (runtime/measure_operations.h).
#pragma once

#include <string>

#include "graph/graph.h"

namespace spillway {

// "matmul(bf16[2048t, 576], bf16[192, 576], -) -> bf16[2048t, 192] transpose_b=1". Equal operands in a row are counted:
// "f32[1] x 210". Which stream of random numbers an operation draws from is left out.
[[nodiscard]] std::string signature_of(const Graph& graph, OpId id);

}  // namespace spillway
