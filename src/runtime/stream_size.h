// How much smaller a stream may be on which an operation is measured, and what of its work is left then.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace spillway {

// A stream of fewer tokens would measure what starting an operation costs.
constexpr int64_t kMinTokens = 256;

// The work of operation `op` on a stream of `tokens` tokens as a share of that on the graph's. Of attention within one
// sequence, half of the tokens are a quarter of the work.
[[nodiscard]] double work_share(const Graph& graph, OpId op, int64_t tokens);

// About half of the tokens: whole sequences of `sequence_len` (0: not known) while there is one, then a part of one.
// The same number where they should not be fewer.
[[nodiscard]] int64_t smaller_stream(int64_t tokens, int64_t sequence_len);

}  // namespace spillway
