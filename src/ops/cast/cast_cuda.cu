// See backend/cuda/convert.cu.
#include "backend/cuda/convert.h"
#include "backend/kernel.h"

namespace spillway::ops {

void cast_cuda(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &out = args.outputs[0];
  cuda::convert(out.data, out.dtype, x.data, x.dtype, x.elems(), args.stream);
}

}  // namespace spillway::ops
