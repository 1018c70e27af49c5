// The operands of the operations of this folder.
#pragma once

#include "ops/optimizers/either_side.h"
#include "ops/sequence_rows.h"
#include "tensor/view.h"

namespace spillway::ops::balance_loss_op {

// The inputs of router_load; the order and the offsets of sequences may be absent.
enum LoadInput : int { kLogits, kOffsets, kOrder, kSeqOffsets };
// The inputs of its gradient behind kLogits; the addend and the offsets of sequences may be absent.
enum LoadGradInput : int { kDLoad = 1, kAddend, kGradSeqOffsets };
// The inputs of balance_loss and of its gradient.
enum Input : int { kLoad, kWeight };
// The inputs of largest_load and reached_experts; the number before may be absent.
enum RunningInput : int { kUse, kBefore };

// Returns how many of the first rows of a stream belong to sequences. Without sequences all do.
[[nodiscard]] SPILLWAY_EITHER_SIDE inline int64_t rows_that_count(const SequenceRows& sequences, int64_t rows) {
  if (sequences.offsets == nullptr) return rows;
  const int64_t end = sequences.offsets[sequences.sequences];
  return end < 0 ? 0 : end < rows ? end : rows;
}

// Returns the number of the expert's pairs, which are in the order of their tokens, of the first rows.
[[nodiscard]] SPILLWAY_EITHER_SIDE inline int32_t pairs_of_rows(const int32_t* order, const int32_t* offsets,
                                                                int64_t expert, int64_t rows, int64_t top_k) {
  const int32_t begin = offsets[expert];
  int32_t low = begin, high = offsets[expert + 1];
  while (low < high) {
    const int32_t middle = low + (high - low) / 2;
    if (order[middle] < rows * top_k) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low - begin;
}

// The halves of a load.
struct Load {
  float *pairs, *probabilities;  // [E]

  explicit Load(const TensorView& load) : pairs(load.as<float>()), probabilities(pairs + load.shape[1]) {}
};

// The pairs of each expert of a layer: between the offsets of sorted pairs, i32 [E + 1], or in a load, f32 [2, E].
struct ExpertPairs {
  const int32_t* offsets = nullptr;
  const float* pairs = nullptr;
  int64_t experts;

  explicit ExpertPairs(const TensorView& use) : experts(use.elems() - 1) {
    if (use.dtype == DType::kI32) {
      offsets = use.as<int32_t>();
    } else {
      pairs = use.as<float>();
      experts = use.shape[1];
    }
  }
  [[nodiscard]] SPILLWAY_EITHER_SIDE int32_t of(int64_t expert) const {
    return offsets != nullptr ? offsets[expert + 1] - offsets[expert] : static_cast<int32_t>(pairs[expert]);
  }
  [[nodiscard]] SPILLWAY_EITHER_SIDE int32_t of_all() const {
    int32_t all = 0;
    for (int64_t e = 0; e < experts; ++e) all += of(e);
    return all;
  }
};

}  // namespace spillway::ops::balance_loss_op
