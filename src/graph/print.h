// A Graph as text, one operation a line:
//
//   layer 0
//     matmul.12 bf16[2048t, 576] = matmul(rms_norm.9/0, model.layers.0.self_attn.q_proj.weight; transpose_b=1)
#pragma once

#include <string>

#include "graph/graph.h"

namespace spillway {

[[nodiscard]] std::string print(const Graph& graph);
// One operation, without a line end.
[[nodiscard]] std::string print_operation(const Graph& graph, OpId id);

}  // namespace spillway
