// Products of experts in tiles of 64 x 64, on the arithmetic of f32: a block for each tile that there can be, which
// finds its expert in the offsets, so that the host never reads them. Bound by arithmetic; not yet measured, and tensor
// cores are not yet used.
#pragma once

#include <algorithm>

#include "backend/cuda/launch.cuh"
#include "backend/kernel.h"
#include "ops/grouped_linear/operands.h"

namespace spillway::ops::grouped_linear_op {

constexpr int kTile = 64, kDepth = 16, kThreads = 256;
constexpr int kOwn = 4;  // rows and columns of a thread
static_assert(kThreads * kOwn * kOwn == kTile * kTile);

// The elements of a tensor, as f32.
template <typename T>
struct Elements {
  const T* data;
  __device__ float operator[](int64_t at) const { return to_float(data[at]); }
};

// A matrix [count, depth] whose element (i, k) is data[i * stride + k * k_stride].
template <typename Data>
struct TileOperand {
  Data data;
  int64_t count, stride, k_stride;

  // Writes elements [first, first + kTile) x [k, k + kDepth) to shared memory, depth by depth; zeros beyond the ends.
  __device__ void load(int64_t first, int64_t k, int64_t depth, float (&to)[kDepth][kTile + 1]) const {
    for (int i = static_cast<int>(threadIdx.x); i < kTile * kDepth; i += kThreads) {
      // Neighbours in memory are read by neighbours.
      const int at = k_stride == 1 ? i / kDepth : i % kTile, at_k = k_stride == 1 ? i % kDepth : i / kTile;
      const bool is_there = first + at < count && k + at_k < depth;
      to[at_k][at] = is_there ? data[(first + at) * stride + (k + at_k) * k_stride] : 0.0f;
    }
  }
};

// Calls finish(row, column, sum) for the elements of the tile at (row, column) of A B'.
template <typename A, typename B, typename Finish>
__device__ void multiply_tile(const A& a, const B& b, int64_t row, int64_t column, int64_t depth,
                              const Finish& finish) {
  __shared__ float left[kDepth][kTile + 1], right[kDepth][kTile + 1];
  const int own_row = static_cast<int>(threadIdx.x) / (kTile / kOwn) * kOwn;
  const int own_column = static_cast<int>(threadIdx.x) % (kTile / kOwn) * kOwn;
  float sums[kOwn][kOwn] = {};
  for (int64_t k = 0; k < depth; k += kDepth) {
    a.load(row, k, depth, left);
    b.load(column, k, depth, right);
    __syncthreads();
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
#pragma unroll
        for (int j = 0; j < kOwn; ++j) sums[i][j] += left[d][own_row + i] * right[d][own_column + j];
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      if (row + own_row + i < a.count && column + own_column + j < b.count)
        finish(row + own_row + i, column + own_column + j, sums[i][j]);
    }
  }
}

// Returns the columns of op(matrix), where the matrix is stored row by row.
template <typename Data>
__device__ TileOperand<Data> columns_of(const Data& data, const Sizes& sizes) {
  return {data, sizes.out, sizes.transposed ? sizes.in : 1, sizes.transposed ? 1 : sizes.out};
}

constexpr int64_t kLaunchExperts = 64;  // of a launch, whose arguments hold their weights

template <typename X, typename Weights>
struct GroupedProduct {
  Sizes sizes;
  const X* x;
  const int32_t* offsets;  // of the experts of the launch
  const X* addend;         // null: none
  X* out;
  int64_t rows, experts;
  float alpha;
  Weights weights;
};

template <typename X, typename Weights>
__global__ void __launch_bounds__(kThreads) grouped_linear_kernel(GroupedProduct<X, Weights> p) {
  const int64_t column_tiles = div_ceil(p.sizes.out, int64_t{kTile});
  int64_t row_tile = blockIdx.x / column_tiles, expert = 0;
  for (; expert < p.experts; ++expert) {
    const int64_t tiles = div_ceil(int64_t{p.offsets[expert + 1] - p.offsets[expert]}, int64_t{kTile});
    if (row_tile < tiles) break;
    row_tile -= tiles;
  }
  if (expert == p.experts) return;
  const int64_t begin = p.offsets[expert], end = p.offsets[expert + 1];
  cuda::require(begin >= 0 && end <= p.rows);
  const int64_t in = p.sizes.in, out = p.sizes.out;
  const TileOperand<Elements<X>> rows{{p.x + begin * in}, end - begin, in, 1};
  multiply_tile(rows, p.weights.columns(expert, p.sizes), row_tile * kTile, blockIdx.x % column_tiles * kTile, in,
                [&](int64_t row, int64_t column, float sum) {
                  const int64_t at = (begin + row) * out + column;
                  sum *= p.alpha;
                  if (p.addend != nullptr) sum += to_float(p.addend[at]);
                  p.out[at] = cuda::from_float<X>(sum);
                });
}

// Multiplies rows by the weights of `experts` experts, for the inputs of grouped_linear: alpha * rows op(weight) +
// addend. Weights::put(args, expert, i) makes an expert of the operation the launch's expert i, and columns(i, sizes)
// gives the columns of op(weight) to a kernel.
template <typename X, typename Weights>
void launch_products(const KernelArgs& args, const Sizes& sizes, int64_t experts, const Weights& weights,
                     float alpha = 1) {
  const TensorView &x = args.inputs[kX], &addend = args.inputs[kAddend], &out = args.outputs[0];
  const bool has_others = experts < args.inputs[kOffsets].elems() - 1;
  if (has_others && (addend.data == nullptr || addend.data != out.data)) cuda::copy_or_zero(addend, out, args.stream);
  if (out.elems() == 0) return;
  const int64_t rows = x.shape[0] * sizes.pairs;
  for (int64_t first = 0; first < experts; first += kLaunchExperts) {
    GroupedProduct<X, Weights> product{.sizes = sizes,
                                       .x = x.as<X>(),
                                       .offsets = args.inputs[kOffsets].as<int32_t>() + sizes.first + first,
                                       .addend = addend.as<X>(),
                                       .out = out.as<X>(),
                                       .rows = rows,
                                       .experts = std::min(kLaunchExperts, experts - first),
                                       .alpha = alpha,
                                       .weights = weights};
    for (int64_t i = 0; i < product.experts; ++i) product.weights.put(args, first + i, i);
    const int64_t row_tiles = rows / kTile + product.experts;  // as many as there can be
    cuda::launch(grouped_linear_kernel<X, Weights>, {row_tiles * div_ceil(sizes.out, int64_t{kTile}), kThreads},
                 args.stream, product);
  }
}

}  // namespace spillway::ops::grouped_linear_op
