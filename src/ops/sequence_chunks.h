// The sequences of a stream, cut into chunks of tokens from the beginning of each on, for operations that carry a state
// along a sequence: their gradients keep the states between chunks and compute those within one anew.
#pragma once

#include <cstdint>

#include "ops/optimizers/either_side.h"
#include "tensor/view.h"

namespace spillway::ops {

// The tokens of a chunk; the last one of a sequence may have fewer.
constexpr int64_t kSequenceChunk = 64;

// Tokens behind the last sequence are taken for one more.
struct ChunkedSequences {
  const int32_t* offsets;
  int64_t count, tokens;

  // `view`: seq_offsets.
  ChunkedSequences(const TensorView& view, int64_t tokens_of_stream)
      : offsets(view.as<int32_t>()), count(view.elems()), tokens(tokens_of_stream) {}

  [[nodiscard]] SPILLWAY_EITHER_SIDE int64_t begin(int64_t sequence) const { return offsets[sequence]; }
  [[nodiscard]] SPILLWAY_EITHER_SIDE int64_t end(int64_t sequence) const {
    return sequence + 1 < count ? offsets[sequence + 1] : tokens;
  }
  // Returns the place of the state at the start of chunk `chunk` > 0 among those of the stream's chunks, of which
  // there are at most tokens / kSequenceChunk: the state at the start of a sequence needs no place.
  [[nodiscard]] SPILLWAY_EITHER_SIDE int64_t place(int64_t sequence, int64_t chunk) const {
    return begin(sequence) / kSequenceChunk + chunk - 1;
  }
};

}  // namespace spillway::ops
