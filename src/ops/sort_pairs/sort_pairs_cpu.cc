// A counting sort, which one thread ends before others would have begun.
#include <algorithm>

#include "backend/kernel.h"
#include "base/error.h"

namespace spillway::ops {

void sort_pairs_cpu(const KernelArgs& args) {
  const TensorView& experts = args.inputs[0];
  const auto* const expert = experts.as<int32_t>();
  auto *const order = args.outputs[0].as<int32_t>(), *const inverse = args.outputs[1].as<int32_t>();
  auto* const offsets = args.outputs[2].as<int32_t>();
  const int64_t count = args.outputs[2].elems() - 1, pairs = experts.elems();
  auto* const next = reinterpret_cast<int32_t*>(args.workspace);
  std::fill_n(next, count, 0);
  for (int64_t p = 0; p < pairs; ++p) {
    SPILLWAY_CHECK(expert[p] >= 0 && expert[p] < count, "expert {} of {}", expert[p], count);
    ++next[expert[p]];
  }
  offsets[0] = 0;
  for (int64_t e = 0; e < count; ++e) {
    offsets[e + 1] = offsets[e] + next[e];
    next[e] = offsets[e];
  }
  for (int64_t p = 0; p < pairs; ++p) {
    const int32_t place = next[expert[p]]++;
    order[place] = static_cast<int32_t>(p);
    inverse[p] = place;
  }
}

}  // namespace spillway::ops
