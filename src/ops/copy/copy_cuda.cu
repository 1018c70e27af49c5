// The kernels are bound by memory: reads and writes each byte once, by the runtime's own copy. Not yet measured.
#include "backend/cuda/launch.cuh"
#include "backend/kernel.h"

namespace spillway::ops {

void copy_cuda(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &out = args.outputs[0];
  cuda::copy_bytes(x.data, out.data, out.bytes(), args.stream);
}

}  // namespace spillway::ops
