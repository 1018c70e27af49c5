// Converts between numbers of tokens and numbers of rows, each of which stands for one sequence or for one sequence of
// a pair.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// The sequences that rows stand for: row r takes sequence first + r * stride, so that rows can be every sequence, or
// one of every two.
struct SequencesOfRows {
  AxisId axis = kNoAxis;
  int64_t first = 0, stride = 1;
};

//   x            f32 [T] or [T, 1], per token
//   weights      f32 [T], per token, by which x is multiplied; kNone: 1
//   seq_offsets  i32 [max_sequences + 1]: sequence s is [seq_offsets[s], seq_offsets[s + 1]); unused entries repeat the
//                length of the stream. Of a sequence that begins before the tokens, or ends behind them, as where ranks
//                share a stream, those that are there count
//
// Returns the sum of each row's sequence: f32 [R] along rows.axis. Products and their sum are f64, token after token on
// the CPU and in an order that depends on the sequence's length alone on a GPU, and rounded once: a row's bits depend
// on its sequence alone. The gradient is x's, not the weights'; tokens of sequences that no row in use takes get 0.
// Throws InputError if a row would lie beyond max_sequences. REQUIRES: first >= 0, stride >= 1; x follows the axis
// before rows.axis, or the first axis if rows have none.
[[nodiscard]] ValueId sequence_sum(Builder& builder, ValueId x, ValueId weights, ValueId seq_offsets,
                                   const SequencesOfRows& rows);

// Spreads numbers of rows over tokens, the reverse of sequence_sum. Each token of a row's sequence gets the row's
// number in x, f32 [R] along rows.axis, times the token's weight if there are weights: f32 [T], 0 for tokens of
// sequences that no row in use takes. The gradient is x's, not the weights'.
[[nodiscard]] ValueId sequence_spread(Builder& builder, ValueId x, ValueId weights, ValueId seq_offsets,
                                      const SequencesOfRows& rows);

}  // namespace spillway::ops
