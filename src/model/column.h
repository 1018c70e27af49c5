// What of a micro-batch the host gives to a graph: batch values that are named as columns are. A micro-batch is a flat
// stream of tokens; objectives that score other sequences besides have further streams.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/builder.h"
#include "tensor/view.h"

namespace spillway {

// What measuring makes up in place of a job's data: so many tokens, in sequences of one length.
struct TypicalBatch {
  int64_t tokens = 0, sequence_len = 0;
  int64_t vocab_size = 0;   // 0 for a model that reads no text
  int64_t text_tokens = 0;  // beside each sequence, of a model that reads such
};

// A model or an objective says which it reads.
struct Column {
  std::string_view name;  // in the graph: "batch.<name>"
  // Fills all of the value with what is usual, for measuring operations.
  void (*fill_typical)(const TensorView& view, const TypicalBatch& batch);
};

// A column in a graph.
struct BatchColumn {
  Column column;
  int stream = 0;  // of the micro-batch's streams the one that it describes
  ValueId value = kNone;
};

// Declares the batch value of a stream: "batch.<name>", and of further streams "batch.<stream>.<name>". Returns it.
ValueId add_column(Builder& builder, const Column& column, const ValueType& type, std::vector<BatchColumn>& columns,
                   int stream = 0);

// Of a flat stream of tokens: i32 each.
extern const Column kIds;         // [T]
extern const Column kPositions;   // [T], restarting at each sequence
extern const Column kSeqOffsets;  // [sequences + 1], where each begins, and the stream's length

// Random token ids.
void fill_typical_ids(const TensorView& view, const TypicalBatch& batch);

}  // namespace spillway
