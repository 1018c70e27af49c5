// Products of experts in tiles of 64 x 64, on the arithmetic of f32: a block for each tile that there can be, which
// finds its expert in the offsets, so that the host never reads them. Bound by arithmetic; not yet measured, and tensor
// cores are not yet used.
#include "backend/cuda/launch.cuh"
#include "backend/kernel.h"
#include "ops/grouped_linear/operands.h"
#include "ops/real.h"

namespace spillway::ops {
namespace {

using namespace grouped_linear_op;

constexpr int kTile = 64, kDepth = 16, kThreads = 256;
constexpr int kOwn = 4;  // rows and columns of a thread
static_assert(kThreads * kOwn * kOwn == kTile * kTile);

// A matrix [count, depth] whose element (i, k) is data[i * stride + k * k_stride].
template <typename T>
struct TileOperand {
  const T* data;
  int64_t count, stride, k_stride;

  // Writes elements [first, first + kTile) x [k, k + kDepth) to shared memory, depth by depth; zeros beyond the ends.
  __device__ void load(int64_t first, int64_t k, int64_t depth, float (&to)[kDepth][kTile + 1]) const {
    for (int i = static_cast<int>(threadIdx.x); i < kTile * kDepth; i += kThreads) {
      // Neighbours in memory are read by neighbours.
      const int at = k_stride == 1 ? i / kDepth : i % kTile, at_k = k_stride == 1 ? i % kDepth : i / kTile;
      const bool is_there = first + at < count && k + at_k < depth;
      to[at_k][at] = is_there ? to_float(data[(first + at) * stride + (k + at_k) * k_stride]) : 0.0f;
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

constexpr int64_t kMostExperts = 64;  // of a launch, whose arguments hold their weights

template <typename X, typename W>
struct GroupedProduct {
  Sizes sizes;
  const X* x;
  const int32_t* offsets;  // of the experts of the launch
  const X* addend;         // null: none
  X* out;
  int64_t rows, experts;
  const W* weights[kMostExperts];
};

template <typename X, typename W>
__global__ void __launch_bounds__(kThreads) grouped_linear_kernel(GroupedProduct<X, W> p) {
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
  const TileOperand<X> rows{p.x + begin * in, end - begin, in, 1};
  const TileOperand<W> columns{p.weights[expert], out, p.sizes.transposed ? in : 1, p.sizes.transposed ? 1 : out};
  multiply_tile(rows, columns, row_tile * kTile, blockIdx.x % column_tiles * kTile, in,
                [&](int64_t row, int64_t column, float sum) {
                  const int64_t at = (begin + row) * out + column;
                  if (p.addend != nullptr) sum += to_float(p.addend[at]);
                  p.out[at] = cuda::from_float<X>(sum);
                });
}

template <typename X, typename W>
void launch_products(const KernelArgs& args, const Sizes& sizes) {
  const TensorView& x = args.inputs[kX];
  const int64_t rows = x.shape[0] * sizes.pairs, experts = std::ssize(args.inputs) - kFirstWeight;
  for (int64_t first = 0; first < experts; first += kMostExperts) {
    GroupedProduct<X, W> product{.sizes = sizes,
                                 .x = x.as<X>(),
                                 .offsets = args.inputs[kOffsets].as<int32_t>() + sizes.first + first,
                                 .addend = args.inputs[kAddend].as<X>(),
                                 .out = args.outputs[0].as<X>(),
                                 .rows = rows,
                                 .experts = std::min(kMostExperts, experts - first)};
    for (int64_t i = 0; i < product.experts; ++i)
      product.weights[i] = args.inputs[static_cast<size_t>(kFirstWeight + first + i)].as<W>();
    const int64_t row_tiles = rows / kTile + product.experts;  // as many as there can be
    cuda::launch(grouped_linear_kernel<X, W>, {row_tiles * div_ceil(sizes.out, int64_t{kTile}), kThreads}, args.stream,
                 product);
  }
}

template <typename X, typename Out, typename Addend>
__global__ void __launch_bounds__(kThreads)
    grouped_linear_grad_kernel(const X* x, const X* dy, const int32_t* range, int64_t rows, Sizes sizes,
                               const Addend* addend, Out* out) {
  const int64_t column_tiles = div_ceil(sizes.in, int64_t{kTile});
  const int64_t begin = range[0], end = range[1];
  cuda::require(begin >= 0 && begin <= end && end <= rows);
  const TileOperand<X> left{dy + begin * sizes.out, sizes.out, 1, sizes.out};
  const TileOperand<X> right{x + begin * sizes.in, sizes.in, 1, sizes.in};
  multiply_tile(left, right, blockIdx.x / column_tiles * kTile, blockIdx.x % column_tiles * kTile, end - begin,
                [&](int64_t row, int64_t column, float sum) {
                  const int64_t at = row * sizes.in + column;
                  if (addend != nullptr) sum += to_float(addend[at]);
                  out[at] = cuda::from_float<Out>(sum);
                });
}

}  // namespace

void grouped_linear_cuda(const KernelArgs& args) {
  const TensorView &x = args.inputs[kX], &addend = args.inputs[kAddend], &out = args.outputs[0];
  const Sizes sizes = sizes_of(x.shape, args.inputs[kFirstWeight].shape, args.attributes);
  const bool has_others = std::ssize(args.inputs) - kFirstWeight < args.inputs[kOffsets].elems() - 1;
  if (has_others && (addend.data == nullptr || addend.data != out.data)) cuda::copy_or_zero(addend, out, args.stream);
  if (out.elems() == 0) return;
  with_real(x.dtype, [&]<typename X>(X*) {
    with_real(args.inputs[kFirstWeight].dtype, [&]<typename W>(W*) { launch_products<X, W>(args, sizes); });
  });
}

void grouped_linear_grad_cuda(const KernelArgs& args) {
  const TensorView &x = args.inputs[kGradX], &dy = args.inputs[kDy], &addend = args.inputs[kGradAddend],
                   &out = args.outputs[0];
  const int64_t expert = args.attributes.integer("first_expert"), pairs = args.attributes.integer("pairs");
  const Sizes sizes{.pairs = pairs, .in = out.shape[1], .out = out.shape[0]};
  const cuda::Grid grid{div_ceil(sizes.out, int64_t{kTile}) * div_ceil(sizes.in, int64_t{kTile}), kThreads};
  const int32_t* const range = args.inputs[kGradOffsets].as<int32_t>() + expert;
  with_real(x.dtype, [&]<typename X>(X*) {
    with_real(out.dtype, [&]<typename Out>(Out*) {
      with_real(addend.dtype, [&]<typename Addend>(Addend*) {
        cuda::launch(grouped_linear_grad_kernel<X, Out, Addend>, grid, args.stream, x.as<X>(), dy.as<X>(), range,
                     x.shape[0] * pairs, sizes, addend.as<Addend>(), out.as<Out>());
      });
    });
  });
}

}  // namespace spillway::ops
