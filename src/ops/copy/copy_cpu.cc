#include "backend/kernel.h"
#include "ops/memory.h"

namespace spillway::ops {

void copy_cpu(const KernelArgs& args) { copy_tensor(args.inputs[0], args.outputs[0], *args.threads); }

}  // namespace spillway::ops
