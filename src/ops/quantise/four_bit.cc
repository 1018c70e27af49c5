#include "ops/quantise/four_bit.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/index.h"
#include "tensor/codebook.h"

namespace spillway::ops {

float double_quantise(std::span<const float> absmax, std::span<uint8_t> codes, std::span<float> nested_absmax,
                      ThreadPool& pool) {
  const int64_t count = static_cast<int64_t>(absmax.size());
  SPILLWAY_CHECK(count > 0 && codes.size() == absmax.size() &&
                     static_cast<int64_t>(nested_absmax.size()) == div_ceil(count, kNestedBlockSize),
                 "{} scales, {} codes, {} nested scales", count, codes.size(), nested_absmax.size());
  double sum = 0;
  for (const float value : absmax) sum += value;
  const float offset = static_cast<float>(sum / static_cast<double>(count));
  pool.parallel_for(static_cast<int64_t>(nested_absmax.size()), 8, [&](int64_t first, int64_t last, int) {
    for (int64_t block = first; block < last; ++block) {
      const auto begin = static_cast<size_t>(block * kNestedBlockSize);
      const size_t end = std::min(absmax.size(), begin + kNestedBlockSize);
      float largest = 0;
      for (size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(absmax[i] - offset));
      nth(nested_absmax, block) = largest;
      // The inverse of 1e-38 is finite: a block of zeros gets the code of zero.
      const float inverse = 1 / std::max(largest, 1e-38F);
      for (size_t i = begin; i < end; ++i)
        codes[i] = nearest_code(kDynamicSignedMidpoints.data(), (absmax[i] - offset) * inverse);
    }
  });
  return offset;
}

}  // namespace spillway::ops
