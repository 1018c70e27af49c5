
#include "backend/kernel.h"
#include "base/parallel.h"
#include "base/sizes.h"
#include "ops/row_slice.h"

namespace spillway::ops {
namespace {

void zero_bytes(std::byte* first, int64_t bytes, ThreadPool& threads) {
  constexpr int64_t kGrainBytes = int64_t{1} << 20;
  threads.parallel_for(bytes, kGrainBytes,
                       [&](int64_t begin, int64_t end, int) { fill_memory(first + begin, 0, end - begin); });
}

}  // namespace

void zero_cpu(const KernelArgs& args) {
  const TensorView& out = args.outputs[0];
  const ElementRange range = elements_of(slice_of(args.attributes), out.shape);
  copy_other_rows(args.inputs[0], out, range, *args.threads);
  const int64_t size = size_of(out.dtype);
  zero_bytes(out.as<std::byte>() + range.begin * size, (range.end - range.begin) * size, *args.threads);
}

void zeros_cpu(const KernelArgs& args) {
  const TensorView& out = args.outputs[0];
  zero_bytes(out.as<std::byte>(), out.bytes(), *args.threads);
}

}  // namespace spillway::ops
