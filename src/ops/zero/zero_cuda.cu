// The kernels are bound by memory: writes the rows once, by the runtime's own memset. Not yet measured.
#include "backend/cuda/launch.cuh"
#include "backend/kernel.h"
#include "ops/row_slice.cuh"

namespace spillway::ops {

void zero_cuda(const KernelArgs& args) {
  const TensorView& out = args.outputs[0];
  const ElementRange range = elements_of(slice_of(args.attributes), out.shape);
  copy_other_rows(args.inputs[0], out, range, args.stream);
  const int64_t size = size_of(out.dtype);
  cuda::zero_bytes(out.as<std::byte>() + range.begin * size, (range.end - range.begin) * size, args.stream);
}

void zeros_cuda(const KernelArgs& args) {
  const TensorView& out = args.outputs[0];
  cuda::zero_bytes(out.as<std::byte>(), out.bytes(), args.stream);
}

}  // namespace spillway::ops
