// Chooses a smaller stream on which an operation is measured, and computes the share of its work that is left then.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/operation.h"

namespace spillway {

// The least number of tokens: fewer would measure the cost of starting an operation.
constexpr int64_t kMinTokens = 256;

// Returns the rows of an axis on a stream of `tokens` tokens; below 0 for one that does not count tokens.
[[nodiscard]] int64_t rows_with(const Graph& graph, AxisId axis, int64_t tokens);

// The types of operands on a stream of `tokens` tokens.
class CutTypes {
 public:
  CutTypes(const Graph& graph, std::span<const ValueId> values, int64_t tokens);
  CutTypes(const CutTypes&) = delete;
  CutTypes& operator=(const CutTypes&) = delete;

  [[nodiscard]] TypeList list() const { return pointers_; }

 private:
  std::vector<ValueType> types_;
  std::vector<const ValueType*> pointers_;
};

// Returns the work of operation `op` on a stream of `tokens` tokens as a share of that on the graph's. For attention
// within one sequence, half of the tokens are a quarter of the work.
[[nodiscard]] double work_share(const Graph& graph, OpId op, int64_t tokens);

// Returns about half of the tokens: whole sequences of `sequence_len` (0: not known) while there is one, then a part of
// one. Returns the same number if they should not be fewer.
[[nodiscard]] int64_t smaller_stream(int64_t tokens, int64_t sequence_len);

}  // namespace spillway
