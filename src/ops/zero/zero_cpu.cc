#include <cstring>

#include "backend/kernel.h"
#include "base/parallel.h"

namespace spillway::ops {

void zero_cpu(const KernelArgs& args) {
  constexpr int64_t kGrainBytes = int64_t{1} << 20;
  const TensorView& out = args.outputs[0];
  args.threads->parallel_for(out.bytes(), kGrainBytes, [&](int64_t begin, int64_t end, int) {
    std::memset(out.as<std::byte>() + begin, 0, static_cast<size_t>(end - begin));
  });
}

}  // namespace spillway::ops
