// The kernels are bound by memory: the average is read and written and the weight read, 10 to 12 bytes an element. Not
// yet measured.
#include "backend/cuda/launch.cuh"
#include "backend/cuda/vector.cuh"
#include "backend/kernel.h"
#include "ops/ema/operands.h"
#include "ops/real.h"

namespace spillway::ops {
namespace {

using namespace ema_op;

constexpr int kThreads = 256;

__device__ float number(float value) { return value; }
__device__ float number(bf16 value) { return to_float(value); }

template <typename W>
__global__ void ema_kernel(const float* average, const W* weight, const int32_t* step, float* out, int64_t elems,
                           int64_t start_step, float decay) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= elems) return;
  out[i] = *step <= start_step ? number(weight[i]) : decay * average[i] + (1 - decay) * number(weight[i]);
}

}  // namespace

void ema_cuda(const KernelArgs& args) {
  const TensorView &average = args.inputs[kAverage], &weight = args.inputs[kWeight], &out = args.outputs[0];
  const int64_t first = args.attributes.integer("first"), elems = out.elems();
  with_real(weight.dtype, [&]<typename W>(W*) {
    cuda::launch(ema_kernel<W>, {div_ceil(elems, int64_t{kThreads}), kThreads}, args.stream, average.as<float>(),
                 weight.as<W>() + first, args.inputs[kStep].as<int32_t>(), out.as<float>(), elems,
                 args.attributes.integer("start_step"), static_cast<float>(args.attributes.real("decay")));
  });
}

}  // namespace spillway::ops
