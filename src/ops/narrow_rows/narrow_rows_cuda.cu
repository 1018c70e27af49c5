// The kernels are bound by memory: 6 bytes for each element of the slice; philox for every eight elements is hidden by
// them. Not yet measured.
#include "backend/cuda/launch.cuh"
#include "backend/cuda/map.cuh"
#include "backend/kernel.h"
#include "ops/narrow_rows/operands.h"
#include "ops/narrow_rows/rounding.h"
#include "ops/row_slice.cuh"

namespace spillway::ops {
namespace {

struct Widen {
  static constexpr int kWidth = cuda::kVector<bf16>;
  const bf16* from;
  float* to;
  __device__ void operator()(cuda::Span<kWidth> span) const { cuda::store(cuda::load(from, span), to, span); }
};

struct Narrow {
  static constexpr int kWidth = cuda::kVector<bf16>;
  const float* from;
  bf16* to;
  __device__ void operator()(cuda::Span<kWidth> span) const { cuda::store(cuda::load(from, span), to, span); }
};

constexpr int kThreads = 256;

// Uses a thread for each block of numbers that are rounded together; the slice may cut the first and the last.
__global__ void __launch_bounds__(kThreads)
    narrow_stochastic_kernel(const float* from, ElementRange slice, RoundingKey key, const int32_t* step, bf16* to) {
  const int64_t block = slice.begin / kRoundedTogether + int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t begin = std::max(slice.begin, block * kRoundedTogether);
  const int64_t end = std::min(slice.end, (block + 1) * kRoundedTogether);
  if (begin >= end) return;
  round_block(from + begin - slice.begin, begin, end, key.of_step(*step), key.stream, to + begin - slice.begin);
}

}  // namespace

void widen_rows_cuda(const KernelArgs& args) {
  const ElementRange slice = elements_of(slice_of(args.attributes), args.inputs[0].shape);
  cuda::map(slice.end - slice.begin, Widen{args.inputs[0].as<bf16>() + slice.begin, args.outputs[0].as<float>()},
            args.stream);
}

void narrow_rows_cuda(const KernelArgs& args) {
  using namespace narrow_rows_op;
  const TensorView &x = args.inputs[kX], &out = args.outputs[0];
  const ElementRange slice = elements_of(slice_of(args.attributes), x.shape);
  copy_other_rows(x, out, slice, args.stream);
  const RoundingKey key(args.attributes);
  const float* const from = args.inputs[kValues].as<float>();
  bf16* const to = out.as<bf16>() + slice.begin;
  if (!key.is_stochastic) return cuda::map(slice.end - slice.begin, Narrow{from, to}, args.stream);
  const int64_t blocks = div_ceil(slice.end, kRoundedTogether) - slice.begin / kRoundedTogether;
  cuda::launch(narrow_stochastic_kernel, {div_ceil(blocks, int64_t{kThreads}), kThreads}, args.stream, from, slice, key,
               args.inputs[kStep].as<int32_t>(), to);
}

}  // namespace spillway::ops
