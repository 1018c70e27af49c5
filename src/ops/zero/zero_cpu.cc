
#include "backend/kernel.h"
#include "base/parallel.h"
#include "base/sizes.h"
#include "ops/row_slice.h"

namespace spillway::ops {

void zero_cpu(const KernelArgs& args) {
  constexpr int64_t kGrainBytes = int64_t{1} << 20;
  const TensorView& out = args.outputs[0];
  const ElementRange range = elements_of(slice_of(args.attributes), out.shape);
  copy_other_rows(args.inputs[0], out, range, *args.threads);
  std::byte* const first = out.as<std::byte>() + range.begin * size_of(out.dtype);
  args.threads->parallel_for((range.end - range.begin) * size_of(out.dtype), kGrainBytes,
                             [&](int64_t begin, int64_t end, int) { fill_memory(first + begin, 0, end - begin); });
}

}  // namespace spillway::ops
