#include <algorithm>
#include <vector>

#include "backend/kernel.h"
#include "ops/quantile_mask/quantile.h"

namespace spillway::ops {

// Runs on one thread: the numbers are those of one micro-batch's tokens.
void quantile_mask_cpu(const KernelArgs& args) {
  const auto *x = args.inputs[0].as<float>(), *mask = args.inputs[1].as<float>();
  auto* out = args.outputs[0].as<float>();
  const int64_t n = args.inputs[0].elems();
  const RankedNumbers all(args);
  auto* const counted = reinterpret_cast<float*>(args.workspace);
  int64_t count = 0;
  for (int64_t i = 0; i < all.count(); ++i)
    if (all.counts(i)) counted[count++] = all.number(i);
  float threshold = 0;
  if (count > 0) {
    const QuantilePlace place = quantile_place(static_cast<float>(args.attributes.real("q")), count);
    std::nth_element(counted, counted + place.low, counted + count, comes_before);
    const float low = counted[place.low];
    const float high =
        place.high == place.low ? low : *std::min_element(counted + place.high, counted + count, comes_before);
    threshold = place.between(low, high);
  }
  for (int64_t i = 0; i < n; ++i) out[i] = mask[i] > 0 && !(x[i] < threshold) ? 1.0f : 0.0f;
}

}  // namespace spillway::ops
