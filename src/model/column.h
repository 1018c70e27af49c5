// Columns: the batch values that the host passes to a graph for each micro-batch. A micro-batch is a flat stream of
// tokens; objectives that also score other sequences have further streams.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/math.h"
#include "graph/builder.h"
#include "tensor/view.h"

namespace spillway {

// A made-up batch for measuring, in place of a job's data: so many tokens, in sequences of one length.
struct TypicalBatch {
  int64_t tokens = 0, sequence_len = 0;
  int64_t vocab_size = 0;   // 0 for a model that reads no text
  int64_t text_tokens = 0;  // beside each sequence, of a model that reads such
};

// A column that a model or an objective reads.
struct Column {
  std::string_view name;  // in the graph: "batch.<name>"
  // Fills the whole value with typical content, for measuring operations.
  void (*fill_typical)(const TensorView& view, const TypicalBatch& batch);
};

// A column in a graph.
struct BatchColumn {
  Column column;
  int stream = 0;  // of the micro-batch's streams the one that it describes
  ValueId value = kNone;
};

// Declares and returns the batch value of a stream: "batch.<name>", for further streams "batch.<stream>.<name>".
ValueId add_column(Builder& builder, const Column& column, const ValueType& type, std::vector<BatchColumn>& columns,
                   int stream = 0);

// The columns of a flat stream of tokens, i32.
extern const Column kIds;         // [T]
extern const Column kPositions;   // [T], restarting at each sequence
extern const Column kSeqOffsets;  // [sequences + 1], where each begins, and the stream's length
// The same of a stream that ranks share, less the first row that this rank has: below 0 for sequences before it.
extern const Column kOwnOffsets;
// The same held within the rows that this rank has, so that sequences which lie before or behind them are empty.
extern const Column kOwnBorders;

// Returns the rows of a stream of so many tokens that each of `ranks` ranks has, the last of them fewer or none: rank r
// has [r * n, (r + 1) * n). They are a multiple of 4, so that each rank begins with a block of random numbers.
[[nodiscard]] constexpr int64_t rows_of_rank(int64_t tokens, int64_t ranks) {
  constexpr int64_t kUnit = 4;
  return ranks == 1 ? tokens : div_ceil(tokens, ranks * kUnit) * kUnit;
}

// Fills the value with random token ids.
void fill_typical_ids(const TensorView& view, const TypicalBatch& batch);

}  // namespace spillway
