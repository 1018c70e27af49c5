// The kernels are bound by memory. Forward: h and x are read, the sum is written (6 bytes per element in bf16).
// Backward: x and dy are read and dx is written (6 bytes), the gate's gradient comes out of the same pass. Not yet
// measured.
#include "backend/kernel.h"
#include "ops/gated_add/operands.h"
#include "ops/modulation/sums.cuh"
#include "ops/real.h"

namespace spillway::ops {
namespace {

using namespace gated_add_op;

constexpr int kThreads = 256;

// Uses a block for each row.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    gated_add_kernel(const T* h, const T* x, ModulationRows modulation, int64_t part, T* out) {
  constexpr int kWidth = cuda::kVector<T>;
  const int64_t width = modulation.width, at = blockIdx.x * width;
  const float* gate = modulation.part_of(modulation.blocks.sequence_of(blockIdx.x), part);
  cuda::for_each_vector<kWidth>(width, static_cast<int>(threadIdx.x), kThreads, [&](cuda::Span<kWidth> span) {
    cuda::Floats<kWidth> sum = cuda::load(h + at, span);
    if (gate != nullptr) {
      const cuda::Floats<kWidth> more = cuda::load(x + at, span), factor = cuda::load(gate, span);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sum[i] += more[i] * factor[i];
    }
    cuda::store(sum, out + at, span);
  });
}

// Uses a block of threads for each block of tokens: a thread has the same columns of all of them. `sums` is null if the
// gate's gradient is not wanted.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    gated_add_grad_kernel(const T* x, const T* dy, ModulationRows modulation, int64_t part, T* dx, float* sums) {
  constexpr int kWidth = cuda::kVector<T>;
  const int64_t width = modulation.width;
  const TokenBlock block = modulation.blocks[blockIdx.x];
  const float* gate = modulation.part_of(block.sequence, part);
  cuda::for_each_vector<kWidth>(width, static_cast<int>(threadIdx.x), kThreads, [&](cuda::Span<kWidth> span) {
    cuda::Floats<kWidth> sum = {}, factor = {};
    if (gate != nullptr) factor = cuda::load(gate, span);
    for (int64_t at = block.begin * width; at < block.end * width; at += width) {
      const cuda::Floats<kWidth> v = cuda::load(x + at, span);
      cuda::Floats<kWidth> d = cuda::load(dy + at, span);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        sum[i] += v[i] * d[i];
        d[i] *= factor[i];
      }
      cuda::store(d, dx + at, span);
    }
    if (sums != nullptr) cuda::store(sum, sums + blockIdx.x * width, span);
  });
}

}  // namespace

void gated_add_cuda(const KernelArgs& args) {
  const TensorView &h = args.inputs[kH], &x = args.inputs[kX], &out = args.outputs[0];
  const ModulationRows modulation(h, args.inputs[kModulation], args.inputs[kSeqOffsets], kMaxGpuBlocks);
  with_real(h.dtype, [&]<typename T>(T*) {
    cuda::launch(gated_add_kernel<T>, {h.shape[0], kThreads}, args.stream, h.as<T>(), x.as<T>(), modulation,
                 args.attributes.integer("part"), out.as<T>());
  });
}

void gated_add_grad_cuda(const KernelArgs& args) {
  const TensorView &x = args.inputs[kGradX], &dy = args.inputs[kGradDy], &dx = args.outputs[0];
  const ModulationRows modulation(x, args.inputs[kGradModulation], args.inputs[kGradSeqOffsets], kMaxGpuBlocks);
  const int64_t part = args.attributes.integer("part");
  auto* const sums = args.outputs.size() > 1 ? reinterpret_cast<float*>(args.workspace) : nullptr;
  with_real(x.dtype, [&]<typename T>(T*) {
    cuda::launch(gated_add_grad_kernel<T>, {modulation.blocks.bound(), kThreads}, args.stream, x.as<T>(), dy.as<T>(),
                 modulation, part, dx.as<T>(), sums);
  });
  if (sums != nullptr) add_parts(modulation, {part, sums}, {}, args.inputs[kGradAddend], args.outputs[1], args.stream);
}

}  // namespace spillway::ops
