// Tiles of attention on tensor cores, by mma.sync, shared by the forward pass and the gradients. A warp has 16 rows of
// a tile; its scores stay in registers, as sums of one product and the left operand of the next (Dao,
// "FlashAttention-2", 2023).
#pragma once

#include "backend/cuda/tensor_cores.cuh"
#include "ops/attention/cuda/walk.cuh"

namespace spillway::cuda {

constexpr int kMmaWarps = 4, kMmaThreads = kMmaWarps * kWarp;

// A block's tile of rows, which stays, and those of columns that it meets one after another: small enough for the 99
// KiB of shared memory that every GPU's blocks have.
template <int kHead>
struct MmaTiles {
  static constexpr int kRows = kMmaWarps * kMmaRows, kColumns = kHead <= 128 ? 64 : 32;
  using Rows = MmaTile<kRows, kHead>;
  using Columns = MmaTile<kColumns, kHead>;
};

// A warp's [16, kColumns] of rows times columns, both over the head.
template <int kHead>
struct MmaScores {
  static constexpr int kParts = MmaTiles<kHead>::kColumns / kMmaColumns;
  MmaSums at[kParts];

  __device__ void add_product(const typename MmaTiles<kHead>::Rows& rows,
                              const typename MmaTiles<kHead>::Columns& columns) {
    const int first = warp_index() * kMmaRows;
#pragma unroll
    for (int depth = 0; depth < kHead; depth += kMmaDepth) {
      const MmaLeft left = rows.left(first, depth);
#pragma unroll
      for (int part = 0; part < kParts; part += 2) {
        MmaRight right[2];
        columns.right_of_rows(part * kMmaColumns, depth, right);
        multiply_add(at[part], left, right[0]);
        multiply_add(at[part + 1], left, right[1]);
      }
    }
  }
};

// A warp's [16, kHead] of sums.
template <int kHead>
struct MmaHeadSums {
  static constexpr int kParts = kHead / kMmaColumns;
  MmaSums at[kParts];

  // Adds weights times columns, over the columns.
  __device__ void add_product(const MmaScores<kHead>& weights, const typename MmaTiles<kHead>::Columns& columns) {
#pragma unroll
    for (int depth = 0; depth < MmaTiles<kHead>::kColumns; depth += kMmaDepth) {
      const int part = depth / kMmaColumns;
      const MmaLeft left = as_left(weights.at[part], weights.at[part + 1]);
#pragma unroll
      for (int column = 0; column < kParts; column += 2) {
        MmaRight right[2];
        columns.right_of_columns(depth, column * kMmaColumns, right);
        multiply_add(at[column], left, right[0]);
        multiply_add(at[column + 1], left, right[1]);
      }
    }
  }

  // Scales row MmaSums::row(2 * row) of the warp's.
  __device__ void scale_row(int row, float factor) {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      at[part].at[2 * row] *= factor;
      at[part].at[2 * row + 1] *= factor;
    }
  }

  // Stores row i of the block's tile at to + i * pitch, if has_row(i).
  template <typename HasRow>
  __device__ void store_to(bf16* to, int64_t pitch, int width, const HasRow& has_row) const {
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      const int row = warp_index() * kMmaRows + MmaSums::row(i);
      if (!has_row(row)) continue;
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        const int column = part * kMmaColumns + MmaSums::column(i);
        if (column >= width) continue;
        *reinterpret_cast<unsigned*>(to + row * pitch + column) = pack_pair(at[part].at[i], at[part].at[i + 1]);
      }
    }
  }
};

// Calls compute(walk, stage) for each tile of a walk, which load(walk, stage) has loaded; if there are two stages, one
// tile is loaded while the one before is computed with. Loads started before the call have finished then, too. Called
// by all threads.
template <int kStages, typename Walk, typename Load, typename Compute>
__device__ void for_each_tile(Walk walk, const Load& load, const Compute& compute) {
  if (!walk.is_done()) load(walk, 0);
  commit_copies();
  for (int stage = 0; !walk.is_done(); stage = (stage + 1) % kStages) {
    const Walk now = walk;
    walk.advance();
    if (kStages > 1 && !walk.is_done()) load(walk, (stage + 1) % kStages);
    commit_copies();
    wait_for_copies<kStages - 1>();
    __syncthreads();
    compute(now, stage);
    __syncthreads();  // before the tile's memory is loaded into again
    if (kStages == 1 && !walk.is_done()) load(walk, 0);
  }
}

}  // namespace spillway::cuda
