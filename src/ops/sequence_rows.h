// Finds the sequence of a flat stream that a row belongs to, on either side.
#pragma once

#include <cstdint>

#include "ops/optimizers/either_side.h"
#include "tensor/view.h"

namespace spillway::ops {

// Returns the sequence of a row, offsets[result] <= row < offsets[result + 1], or -1 behind the last one. Offsets are
// [sequences + 1]: the beginning of each, and the stream's length.
[[nodiscard]] SPILLWAY_EITHER_SIDE inline int64_t sequence_of_row(const int32_t* offsets, int64_t sequences,
                                                                  int64_t row) {
  if (sequences == 0 || row >= offsets[sequences]) return -1;
  int64_t low = 0, high = sequences;  // offsets[low] <= row < offsets[high]
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (offsets[middle] <= row ? low : high) = middle;
  }
  return low;
}

struct SequenceRows {
  const int32_t* offsets = nullptr;  // null: the stream is not divided
  int32_t sequences = 0;

  SequenceRows() = default;
  // `view`: i32 [sequences + 1], the beginning of each sequence, and the stream's length. May be absent.
  explicit SequenceRows(const TensorView& view) : offsets(view.as<int32_t>()) {
    if (offsets != nullptr) sequences = static_cast<int32_t>(view.elems()) - 1;
  }

  // Returns the rows of the sequence of `row`; 0 behind the last one and in a stream that is not divided.
  [[nodiscard]] SPILLWAY_EITHER_SIDE int32_t length_at(int64_t row) const {
    const int64_t sequence = sequence_of_row(offsets, sequences, row);
    return sequence < 0 ? 0 : offsets[sequence + 1] - offsets[sequence];
  }
};

}  // namespace spillway::ops
