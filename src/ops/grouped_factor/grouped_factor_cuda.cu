// Products of experts (ops/grouped_linear/tiles.cuh) with their matrices where they are in a factor. Not yet measured.
#include "ops/grouped_factor/operands.h"
#include "ops/grouped_linear/tiles.cuh"
#include "ops/real.h"

namespace spillway::ops {
namespace {

using namespace grouped_factor_op;
using grouped_linear_op::Elements, grouped_linear_op::TileOperand, grouped_linear_op::kTile,
    grouped_linear_op::kThreads, grouped_linear_op::kLaunchExperts;

template <typename W>
struct FactorMatrices {
  FactorLayout matrix;
  const W* first;  // of the launch's experts

  void put(const KernelArgs& args, int64_t expert, int64_t to) {
    if (to == 0) first = args.inputs[kFactor].as<W>() + matrix.first + expert * matrix.expert_stride;
  }
  __device__ TileOperand<Elements<W>> columns(int64_t expert, const Sizes& sizes) const {
    return {{first + expert * matrix.expert_stride},
            sizes.out,
            sizes.transposed ? matrix.row_stride : matrix.column_stride,
            sizes.transposed ? matrix.column_stride : matrix.row_stride};
  }
};

// Adds the gradient of a tile of an expert's matrix to the addend.
template <typename X, typename Out, typename Addend>
__global__ void __launch_bounds__(kThreads)
    grouped_factor_grad_kernel(const X* x, const X* dy, const int32_t* offsets, int64_t rows, FactorLayout matrix,
                               float alpha, const Addend* addend, Out* out) {
  const int64_t column_tiles = div_ceil(matrix.columns, int64_t{kTile});
  const int64_t tiles = div_ceil(matrix.rows, int64_t{kTile}) * column_tiles;
  const int64_t expert = blockIdx.x / tiles, tile = blockIdx.x % tiles;
  const int64_t begin = offsets[expert], end = offsets[expert + 1];
  cuda::require(begin >= 0 && begin <= end && end <= rows);
  const TileOperand<Elements<X>> left{{dy + begin * matrix.rows}, matrix.rows, 1, matrix.rows};
  const TileOperand<Elements<X>> right{{x + begin * matrix.columns}, matrix.columns, 1, matrix.columns};
  grouped_linear_op::multiply_tile(left, right, tile / column_tiles * kTile, tile % column_tiles * kTile, end - begin,
                                   [&](int64_t row, int64_t column, float sum) {
                                     const int64_t at = matrix.first + expert * matrix.expert_stride +
                                                        row * matrix.row_stride + column * matrix.column_stride;
                                     sum *= alpha;
                                     if (addend != nullptr) sum += to_float(addend[at]);
                                     out[at] = cuda::from_float<Out>(sum);
                                   });
}

}  // namespace

void grouped_factor_cuda(const KernelArgs& args) {
  const TensorView& factor = args.inputs[kFactor];
  const int64_t experts = args.inputs[kOffsets].elems() - 1;
  const FactorLayout matrix = layout_of(factor.shape, experts, args.attributes);
  const auto alpha = static_cast<float>(args.attributes.real("alpha"));
  with_real(args.inputs[kX].dtype, [&]<typename X>(X*) {
    with_real(factor.dtype, [&]<typename W>(W*) {
      grouped_linear_op::launch_products<X>(args, sizes_of(matrix, args.attributes), experts,
                                            FactorMatrices<W>{matrix, nullptr}, alpha);
    });
  });
}

void grouped_factor_grad_cuda(const KernelArgs& args) {
  const TensorView &x = args.inputs[kGradX], &dy = args.inputs[kDy], &addend = args.inputs[kGradAddend],
                   &out = args.outputs[0];
  const int64_t experts = args.inputs[kGradOffsets].elems() - 1;
  const FactorLayout matrix = layout_of(out.shape, experts, args.attributes);
  const auto alpha = static_cast<float>(args.attributes.real("alpha"));
  const int64_t tiles = div_ceil(matrix.rows, int64_t{kTile}) * div_ceil(matrix.columns, int64_t{kTile});
  if (!matrix.is_whole(out.shape, experts)) cuda::copy_or_zero(addend, out, args.stream);
  with_real(out.dtype, [&]<typename Out>(Out*) {
    with_real(addend.dtype, [&]<typename Addend>(Addend*) {
      with_real(x.dtype, [&]<typename X>(X*) {
        cuda::launch(grouped_factor_grad_kernel<X, Out, Addend>, {experts * tiles, kThreads}, args.stream, x.as<X>(),
                     dy.as<X>(), args.inputs[kGradOffsets].as<int32_t>(), x.shape[0] * args.attributes.integer("pairs"),
                     matrix, alpha, addend.as<Addend>(), out.as<Out>());
      });
    });
  });
}

}  // namespace spillway::ops
