// Blocks of tokens that do not reach from one sequence into the next, for sums over the tokens of each sequence: their
// borders depend on the stream alone, each is summed by one thread (or block of threads), and the blocks of a sequence
// are added up in order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backend/kernel.h"
#include "base/math.h"
#include "ops/optimizers/either_side.h"
#include "ops/sequence_rows.h"

namespace spillway::ops {

// The most blocks for the CPU and for a GPU, which has more to keep busy; sequences that are no whole blocks add some.
constexpr int64_t kMaxCpuBlocks = 64, kMaxGpuBlocks = 256;

// Returns the floats of partial sums, f32 [blocks, columns], for so many sequences.
[[nodiscard]] constexpr int64_t block_sums_floats(int64_t max_blocks, int64_t sequences, int64_t columns) {
  return (max_blocks + sequences + 1) * columns;
}

// The tokens [begin, end) of a sequence; -1 for those of none. Empty: there is no such block.
struct TokenBlock {
  int64_t sequence = -1, begin = 0, end = 0;
};

// The blocks of the first `sequences` sequences, and behind them, as if they were one more, of all other tokens.
class TokenBlocks {
 public:
  // `offsets` may be null if there are no sequences.
  SPILLWAY_EITHER_SIDE TokenBlocks(int64_t tokens, const int32_t* offsets, int64_t sequences, int64_t max_blocks)
      : tokens_(tokens), offsets_(offsets), sequences_(sequences), block_(block_tokens(tokens, max_blocks)) {}

  // Returns an upper bound of the number of blocks, without reading the offsets.
  [[nodiscard]] int64_t bound() const { return div_ceil(tokens_, block_) + sequences_ + 1; }

  [[nodiscard]] SPILLWAY_EITHER_SIDE int64_t begin_of(int64_t sequence) const {
    return offsets_ == nullptr ? 0 : offsets_[sequence];
  }
  [[nodiscard]] SPILLWAY_EITHER_SIDE int64_t end_of(int64_t sequence) const {
    return sequence == sequences_ ? tokens_ : offsets_[sequence + 1];
  }
  [[nodiscard]] SPILLWAY_EITHER_SIDE int64_t blocks_of(int64_t sequence) const {
    return (end_of(sequence) - begin_of(sequence) + block_ - 1) / block_;
  }
  [[nodiscard]] SPILLWAY_EITHER_SIDE int64_t first_block(int64_t sequence) const {
    int64_t blocks = 0;
    for (int64_t s = 0; s < sequence; ++s) blocks += blocks_of(s);
    return blocks;
  }
  [[nodiscard]] SPILLWAY_EITHER_SIDE TokenBlock operator[](int64_t index) const {
    for (int64_t s = 0; s <= sequences_; ++s) {
      const int64_t blocks = blocks_of(s);
      if (index >= blocks) {
        index -= blocks;
        continue;
      }
      const int64_t begin = begin_of(s) + index * block_, end = end_of(s);
      return {s < sequences_ ? s : -1, begin, begin + block_ < end ? begin + block_ : end};
    }
    return {};
  }
  // Returns the sequence of a token, or -1.
  [[nodiscard]] SPILLWAY_EITHER_SIDE int64_t sequence_of(int64_t token) const {
    return sequence_of_row(offsets_, sequences_, token);
  }

 private:
  static constexpr int64_t kMinTokens = 16;

  SPILLWAY_EITHER_SIDE static int64_t block_tokens(int64_t tokens, int64_t max_blocks) {
    const int64_t block = (tokens + max_blocks - 1) / max_blocks;
    return block < kMinTokens ? kMinTokens : block;
  }

  int64_t tokens_;
  const int32_t* offsets_;
  int64_t sequences_, block_;
};

// The modulation of a kernel: two of its inputs, which may be absent.
struct ModulationRows {
  const float* rows;
  int64_t row_width, width;
  TokenBlocks blocks;

  // Reads them for a stream like `x`.
  ModulationRows(const TensorView& x, const TensorView& modulation, const TensorView& offsets, int64_t max_blocks)
      : rows(modulation.as<float>()),
        row_width(rows == nullptr ? 0 : modulation.shape[1]),
        width(x.shape[1]),
        blocks(x.shape[0], offsets.as<int32_t>(), rows == nullptr ? 0 : modulation.shape[0], max_blocks) {}

  // Returns part `part` of a sequence; null for a token of none.
  [[nodiscard]] SPILLWAY_EITHER_SIDE const float* part_of(int64_t sequence, int64_t part) const {
    return sequence < 0 ? nullptr : rows + sequence * row_width + part * width;
  }
};

}  // namespace spillway::ops
