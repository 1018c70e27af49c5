// Products of bf16 on tensor cores, with sums in f32, and the shared memory that their operands come from: PTX's
// mma.m16n8k16, ldmatrix and cp.async, which every GPU has from sm_80 on (NVIDIA, "Parallel Thread Execution ISA").
#pragma once

#include "backend/cuda/kernel.cuh"

namespace spillway::cuda {

constexpr int kMmaRows = 16, kMmaColumns = 8, kMmaDepth = 16;

// A lane's part of a product [16, 8] of f32: of rows lane / 4 and lane / 4 + 8 the columns 2 (lane % 4) and the next.
struct MmaSums {
  float at[4] = {};

  // Return the row and column of element i of a lane's part.
  static __device__ int row(int i) { return lane_index() / 4 + i / 2 * 8; }
  static __device__ int column(int i) { return lane_index() % 4 * 2 + i % 2; }
};
// A lane's part of the left operand [16, 16] and of the right one [16, 8], two neighbours along the depth per word.
struct MmaLeft {
  unsigned at[4];
};
struct MmaRight {
  unsigned at[2];
};

// Computes sums += left right, by all lanes of a warp.
__device__ inline void multiply_add(MmaSums& sums, const MmaLeft& left, const MmaRight& right) {
#ifdef __CUDACC__
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sums.at[0]), "+f"(sums.at[1]), "+f"(sums.at[2]), "+f"(sums.at[3])
      : "r"(left.at[0]), "r"(left.at[1]), "r"(left.at[2]), "r"(left.at[3]), "r"(right.at[0]), "r"(right.at[1]));
#else
  simt::multiply_add(sums.at, left.at, right.at);
#endif
}

// Returns two numbers as bf16, the first one in the lower half.
__device__ inline unsigned pack_pair(float first, float second) {
#ifdef __CUDACC__
  const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);  // one instruction
  return *reinterpret_cast<const unsigned*>(&pair);
#else
  return to_bf16(first).bits | static_cast<unsigned>(to_bf16(second).bits) << 16;
#endif
}

// Returns sums of [16, 16] as a left operand, so that one product feeds the next without leaving the registers.
__device__ inline MmaLeft as_left(const MmaSums& first, const MmaSums& second) {
  return {{pack_pair(first.at[0], first.at[1]), pack_pair(first.at[2], first.at[3]),
           pack_pair(second.at[0], second.at[1]), pack_pair(second.at[2], second.at[3])}};
}

// Four matrices of 8 x 8 elements: lane 8 m + i gives the address of row i of matrix m, 16 bytes in shared memory;
// word m of a lane is then its part of matrix m, or of its transpose.
struct Matrices {
  unsigned at[4];
};
template <bool kTransposed>
__device__ inline Matrices load_matrices(const bf16* row) {
  Matrices result;
#ifdef __CUDACC__
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(result.at[0]), "=r"(result.at[1]), "=r"(result.at[2]), "=r"(result.at[3])
                 : "r"(address));
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(result.at[0]), "=r"(result.at[1]), "=r"(result.at[2]), "=r"(result.at[3])
                 : "r"(address));
  }
#else
  simt::load_matrices(row, kTransposed, result.at);
#endif
  return result;
}

// Copies 16 bytes from global to shared memory, both aligned so, while the thread goes on; writes zeros and reads
// nothing if `is_there` is false. Copies end with the wait for the group that they were committed to.
__device__ inline void start_copy(void* shared, const void* global, bool is_there) {
#ifdef __CUDACC__
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(global), "r"(is_there ? 16 : 0)
               : "memory");
#else
  simt::start_copy(shared, global, 16, is_there ? 16 : 0);
#endif
}
// Copies like start_copy(), but 4 bytes, which must be there.
__device__ inline void start_word_copy(void* shared, const void* global) {
#ifdef __CUDACC__
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(address), "l"(global) : "memory");
#else
  simt::start_copy(shared, global, 4, 4);
#endif
}
__device__ inline void commit_copies() {
#ifdef __CUDACC__
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  simt::commit_copies();
#endif
}
// Waits until at most kPending groups of this thread are under way. Other threads see the copies after a barrier.
template <int kPending>
__device__ inline void wait_for_copies() {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#else
  simt::wait_for_copies(kPending);
#endif
}

// Fills row i of a tile with the `width` elements at from + i * pitch, for i < rows, and the rest with zeros. Uses
// kThreads threads. REQUIRES: width and pitch are multiples of a piece, `from` is 16-byte aligned.
template <int kThreads, typename Tile>
__device__ void load_rows(const Tile& tile, const bf16* from, int64_t pitch, int rows, int width) {
  // A thread has one piece of every kStep-th row: all but the row is the same for its copies.
  constexpr int kStep = kThreads / Tile::kPieces, kCopies = div_ceil(Tile::kRows, kStep);
  static_assert(kThreads % Tile::kPieces == 0 && Tile::kRows % kStep == 0);
  const int row = static_cast<int>(threadIdx.x) / Tile::kPieces, at = static_cast<int>(threadIdx.x) % Tile::kPieces;
  const int count = at * Tile::kPieceElems < width ? rows - row : 0;
  const bf16* const mine = from + row * pitch + at * Tile::kPieceElems;
#pragma unroll
  for (int i = 0; i < kCopies; ++i) {
    const bool is_there = i * kStep < count;
    start_copy(tile.piece(row + i * kStep, at), is_there ? mine + i * kStep * pitch : from, is_there);
  }
}

// A tile [kRows, kColumns] of bf16 in shared memory. The position of each piece of 16 bytes depends on the row's
// number, so that one piece of eight neighbouring rows lies in different banks.
template <int kRows_, int kColumns_>
struct MmaTile {
  static constexpr int kRows = kRows_, kColumns = kColumns_, kPieceElems = 8, kPieces = kColumns / kPieceElems;
  static constexpr int kBytes = kRows * kColumns * static_cast<int>(sizeof(bf16));
  static_assert(kPieces % 8 == 0);
  bf16* data;

  [[nodiscard]] __device__ bf16* piece(int row, int piece) const {
    return data + row * kColumns + (piece ^ (row & 7)) * kPieceElems;
  }

  // See load_rows().
  template <int kThreads>
  __device__ void start_loading(const bf16* from, int64_t pitch, int rows, int width) const {
    load_rows<kThreads>(*this, from, pitch, rows, width);
  }

  // Returns rows [row, row + 16), elements [column, column + 16) along the depth.
  [[nodiscard]] __device__ MmaLeft left(int row, int column) const {
    const int lane = lane_index();
    const Matrices m = load_matrices<false>(piece(row + lane % 16, column / kPieceElems + lane / 16));
    return {{m.at[0], m.at[1], m.at[2], m.at[3]}};
  }
  // Returns two right operands whose columns are the tile's rows [row, row + 16).
  __device__ void right_of_rows(int row, int column, MmaRight (&result)[2]) const {
    const int lane = lane_index();
    const Matrices m = load_matrices<false>(piece(row + lane % 8 + lane / 16 * 8, column / kPieceElems + lane / 8 % 2));
    result[0] = {{m.at[0], m.at[1]}};
    result[1] = {{m.at[2], m.at[3]}};
  }
  // Returns two right operands whose columns are the tile's columns [column, column + 16), and whose depth its rows
  // from `row`.
  __device__ void right_of_columns(int row, int column, MmaRight (&result)[2]) const {
    const int lane = lane_index();
    const Matrices m = load_matrices<true>(piece(row + lane % 16, column / kPieceElems + lane / 16));
    result[0] = {{m.at[0], m.at[1]}};
    result[1] = {{m.at[2], m.at[3]}};
  }
};

// Several tiles of one kind. Computes their positions, so that a tile's number needs no table in memory.
template <typename Tile, int kStages>
struct StagedTiles {
  static constexpr int kBytes = kStages * Tile::kBytes;
  bf16* data;
  [[nodiscard]] __device__ Tile operator[](int stage) const {
    return Tile{data + stage * (Tile::kBytes / static_cast<int>(sizeof(bf16)))};
  }
};

}  // namespace spillway::cuda
