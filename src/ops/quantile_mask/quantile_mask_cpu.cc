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
  // The output holds the numbers that count before it holds the answer.
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i)
    if (mask[i] > 0) out[count++] = x[i];
  float threshold = 0;
  if (count > 0) {
    const QuantilePlace place = quantile_place(static_cast<float>(args.attributes.real("q")), count);
    std::nth_element(out, out + place.low, out + count, comes_before);
    const float low = out[place.low];
    const float high = place.high == place.low ? low : *std::min_element(out + place.high, out + count, comes_before);
    threshold = place.between(low, high);
  }
  for (int64_t i = 0; i < n; ++i) out[i] = mask[i] > 0 && !(x[i] < threshold) ? 1.0f : 0.0f;
}

}  // namespace spillway::ops
