#include "ops/grouped_linear/tiles.cuh"
#include "ops/real.h"

namespace spillway::ops {
namespace {

using namespace grouped_linear_op;

template <typename W>
struct DenseWeights {
  const W* data[kLaunchExperts];

  void put(const KernelArgs& args, int64_t expert, int64_t to) {
    data[to] = args.inputs[static_cast<size_t>(kFirstWeight + expert)].as<W>();
  }
  __device__ TileOperand<Elements<W>> columns(int64_t expert, const Sizes& sizes) const {
    return columns_of(Elements<W>{data[expert]}, sizes);
  }
};

template <typename X, typename Out, typename Addend>
__global__ void __launch_bounds__(kThreads)
    grouped_linear_grad_kernel(const X* x, const X* dy, const int32_t* range, int64_t rows, Sizes sizes,
                               const Addend* addend, Out* out) {
  const int64_t column_tiles = div_ceil(sizes.in, int64_t{kTile});
  const int64_t begin = range[0], end = range[1];
  cuda::require(begin >= 0 && begin <= end && end <= rows);
  const TileOperand<Elements<X>> left{{dy + begin * sizes.out}, sizes.out, 1, sizes.out};
  const TileOperand<Elements<X>> right{{x + begin * sizes.in}, sizes.in, 1, sizes.in};
  multiply_tile(left, right, blockIdx.x / column_tiles * kTile, blockIdx.x % column_tiles * kTile, end - begin,
                [&](int64_t row, int64_t column, float sum) {
                  const int64_t at = row * sizes.in + column;
                  if (addend != nullptr) sum += to_float(addend[at]);
                  out[at] = cuda::from_float<Out>(sum);
                });
}

}  // namespace

void grouped_linear_cuda(const KernelArgs& args) {
  const std::span<const TensorView> weights = args.inputs.subspan(kFirstWeight);
  const Sizes sizes = sizes_of(args.inputs[kX].shape, weights[0].shape, args.attributes);
  with_real(args.inputs[kX].dtype, [&]<typename X>(X*) {
    with_real(weights[0].dtype,
              [&]<typename W>(W*) { launch_products<X>(args, sizes, std::ssize(weights), DenseWeights<W>{}); });
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
