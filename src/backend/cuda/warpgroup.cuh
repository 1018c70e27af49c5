// Products of bf16 by a warpgroup, four warps in step, with both operands or the right one in shared memory: PTX's
// wgmma.mma_async, which only sm_90a has (NVIDIA, "Parallel Thread Execution ISA"). It reaches about one and a half
// times the rate of mma.sync (tensor_cores.cuh). A product is started and goes on while the warps do something else.
#pragma once

#include "backend/cuda/tensor_cores.cuh"

namespace spillway::cuda {

// Set if these products can be compiled. For other GPUs they do nothing, and code that starts them must not be
// launched.
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define SPILLWAY_WARPGROUPS 1
#endif

constexpr int kGroupWarps = 4, kGroupRows = kGroupWarps * kMmaRows;

// Returns the same for all lanes, visibly to the compiler, so that values which depend on it can be in uniform
// registers.
__device__ inline int group_index() { return __shfl_sync(kAllLanes, warp_index() / kGroupWarps, 0); }

// A tile [kRows, kColumns] of bf16 in shared memory, as panels of 64 columns. A panel's row is 128 bytes; the position
// of its pieces of 16 depends on the row's number, which is wgmma's swizzle of 128 bytes.
// REQUIRES: `data` is a multiple of 1,024 bytes.
template <int kRows_, int kColumns_>
struct PanelTile {
  static constexpr int kRows = kRows_, kColumns = kColumns_, kPieceElems = 8, kPieces = kColumns / kPieceElems;
  static constexpr int kPanelColumns = 64, kPanels = kColumns / kPanelColumns, kPanelPieces = 8;
  static constexpr int kBytes = kRows * kColumns * static_cast<int>(sizeof(bf16));
  static_assert(kRows % 8 == 0 && kColumns % kPanelColumns == 0);
  bf16* data;

  // Returns the offset of a panel's row, in elements.
  static constexpr __device__ int offset_of(int panel, int row) { return (panel * kRows + row) * kPanelColumns; }
  [[nodiscard]] __device__ bf16* piece(int row, int piece) const {
    return data + offset_of(piece / kPanelPieces, row) + (piece % kPanelPieces ^ (row & 7)) * kPieceElems;
  }
  // Returns rows [row, row + 16), elements [column, column + 16) along the depth.
  [[nodiscard]] __device__ MmaLeft left(int row, int column) const {
    const int lane = lane_index();
    const Matrices m = load_matrices<false>(piece(row + lane % 16, column / kPieceElems + lane / 16));
    return {{m.at[0], m.at[1], m.at[2], m.at[3]}};
  }
  // See load_rows().
  template <int kThreads>
  __device__ void start_loading(const bf16* from, int64_t pitch, int rows, int width) const {
    load_rows<kThreads>(*this, from, pitch, rows, width);
  }
};

// A lane's part of a product [64, 64]: of its warp's 16 rows.
struct GroupSums {
  static constexpr int kParts = PanelTile<8, 64>::kPanelColumns / kMmaColumns;
  MmaSums at[kParts];
};

#ifdef __CUDACC__
// Returns wgmma's descriptor of an operand in shared memory, `offset` elements into a tile: its address, the 1,024
// bytes from eight rows to the next, and the swizzle. No operand here is wider than a panel, so the other distance has
// no meaning. The offset, a constant where this is inlined, is added to the part that the whole tile has in common.
__device__ inline uint64_t matrix_descriptor(const bf16* tile, int offset) {
  constexpr uint64_t kNextRows = 1024 >> 4, kSwizzle128 = uint64_t{1} << 62;
  const uint64_t address = static_cast<uint64_t>(__cvta_generic_to_shared(tile));
  const uint64_t of_tile = (address & 0x3FFFF) >> 4 | kNextRows << 16 | kNextRows << 32 | kSwizzle128;
  return of_tile + static_cast<uint64_t>(offset * static_cast<int>(sizeof(bf16)) >> 4);
}

#define SPILLWAY_SUMS_OF(access, part) \
  access((part).at[0]), access((part).at[1]), access((part).at[2]), access((part).at[3])
#define SPILLWAY_GROUP_SUMS(access, sums)                                             \
  SPILLWAY_SUMS_OF(access, (sums).at[0]), SPILLWAY_SUMS_OF(access, (sums).at[1]),     \
      SPILLWAY_SUMS_OF(access, (sums).at[2]), SPILLWAY_SUMS_OF(access, (sums).at[3]), \
      SPILLWAY_SUMS_OF(access, (sums).at[4]), SPILLWAY_SUMS_OF(access, (sums).at[5]), \
      SPILLWAY_SUMS_OF(access, (sums).at[6]), SPILLWAY_SUMS_OF(access, (sums).at[7])
#define SPILLWAY_GROUP_SUMS_NAMES                                                                         \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, " \
  "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"
#endif

// Writes the sums of a product: added to their values (+f), or starting from zero (=f), so that they need no values
// before.
#ifdef SPILLWAY_WARPGROUPS
#define SPILLWAY_WGMMA "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " SPILLWAY_GROUP_SUMS_NAMES
#define SPILLWAY_PRODUCT_OF_REGISTERS(access, adds, transposed)                              \
  asm volatile(SPILLWAY_WGMMA ", {%32, %33, %34, %35}, %36, " adds ", 1, 1, " transposed ";" \
               : SPILLWAY_GROUP_SUMS(access, sums)                                           \
               : "r"(left.at[0]), "r"(left.at[1]), "r"(left.at[2]), "r"(left.at[3]), "l"(b))
#define SPILLWAY_PRODUCT_OF_TILES(access, adds) \
  asm volatile(SPILLWAY_WGMMA ", %32, %33, " adds ", 1, 1, 0, 0;" : SPILLWAY_GROUP_SUMS(access, sums) : "l"(a), "l"(b))
#endif

// Starts sums (+)= left right' over one depth of 16: the first 64 rows of the right tile along its columns [depth,
// depth + 16), and of each warp its 16 rows of the left operand, in registers that must not change until the product is
// done. kAdds: adds to the sums, else overwrites them.
template <bool kAdds, typename Right>
__device__ void start_product_of_rows(GroupSums& sums, const MmaLeft& left, const Right& right, int depth) {
#ifndef __CUDACC__
  const int lane = lane_index(), k = depth + lane % 4 * 2;
  const auto pair = [&](int row, int column) {
    return *reinterpret_cast<const unsigned*>(right.piece(row, column / 8) + column % 8);
  };
  for (int part = 0; part < GroupSums::kParts; ++part) {
    const int row = part * kMmaColumns + lane / 4;
    if (!kAdds) sums.at[part] = {};
    multiply_add(sums.at[part], left, {{pair(row, k), pair(row, k + 8)}});
  }
#elif defined(SPILLWAY_WARPGROUPS)
  const uint64_t b =
      matrix_descriptor(right.data, Right::offset_of(depth / Right::kPanelColumns, 0) + depth % Right::kPanelColumns);
  if constexpr (kAdds) {
    SPILLWAY_PRODUCT_OF_REGISTERS("+f", "1", "0");
  } else {
    SPILLWAY_PRODUCT_OF_REGISTERS("=f", "0", "0");
  }
#endif
}

// Does the same with the left operand in shared memory, too: the tile's rows [left_row, left_row + 64).
template <bool kAdds, typename Left, typename Right>
__device__ void start_product_of_rows(GroupSums& sums, const Left& left, int left_row, const Right& right, int depth) {
#ifndef __CUDACC__
  start_product_of_rows<kAdds>(sums, left.left(left_row + warp_index() % kGroupWarps * kMmaRows, depth), right, depth);
#elif defined(SPILLWAY_WARPGROUPS)
  const int panel = depth / Left::kPanelColumns, column = depth % Left::kPanelColumns;
  const uint64_t a = matrix_descriptor(left.data + Left::offset_of(0, left_row), Left::offset_of(panel, 0) + column);
  const uint64_t b = matrix_descriptor(right.data, Right::offset_of(panel, 0) + column);
  if constexpr (kAdds) {
    SPILLWAY_PRODUCT_OF_TILES("+f", "1");
  } else {
    SPILLWAY_PRODUCT_OF_TILES("=f", "0");
  }
#endif
}

// Starts sums += left right over one depth of 16: the right tile's rows [row, row + 16) along the depth, and the 64
// columns of one of its panels.
template <typename Right>
__device__ void start_product_of_columns(GroupSums& sums, const MmaLeft& left, const Right& right, int row, int panel) {
#ifndef __CUDACC__
  const int lane = lane_index(), k = row + lane % 4 * 2;
  const auto element = [&](int at, int column) -> unsigned { return right.piece(at, column / 8)[column % 8].bits; };
  const auto pair = [&](int at, int column) { return element(at, column) | element(at + 1, column) << 16; };
  for (int part = 0; part < GroupSums::kParts; ++part) {
    const int column = panel * Right::kPanelColumns + part * kMmaColumns + lane / 4;
    multiply_add(sums.at[part], left, {{pair(k, column), pair(k + 8, column)}});
  }
#elif defined(SPILLWAY_WARPGROUPS)
  const uint64_t b = matrix_descriptor(right.data, Right::offset_of(panel, row));
  SPILLWAY_PRODUCT_OF_REGISTERS("+f", "1", "1");
#endif
}

// Must be called before the first of several products, and again if registers or shared memory have changed since.
__device__ inline void start_products() {
#if defined(__CUDACC__) && defined(SPILLWAY_WARPGROUPS)
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
// Makes a group of the products started so far that are not yet in one.
__device__ inline void commit_products() {
#if defined(__CUDACC__) && defined(SPILLWAY_WARPGROUPS)
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
// Waits until at most kPending groups are not done.
template <int kPending>
__device__ inline void wait_for_products() {
#if defined(__CUDACC__) && defined(SPILLWAY_WARPGROUPS)
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
#endif
}
// Makes this thread's writes to shared memory, including copies that it has waited for, visible to products that are
// started after a barrier.
__device__ inline void show_to_products() {
#if defined(__CUDACC__) && defined(SPILLWAY_WARPGROUPS)
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

}  // namespace spillway::cuda
