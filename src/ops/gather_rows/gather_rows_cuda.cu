// Bound by memory: each row is read and written. Not yet measured.
#include "backend/kernel.h"
#include "ops/gather_rows/gather.cuh"

namespace spillway::ops {

void gather_rows_cuda(const KernelArgs& args) { gather(args.inputs[0], args.inputs[1], args.outputs[0], args.stream); }

}  // namespace spillway::ops
