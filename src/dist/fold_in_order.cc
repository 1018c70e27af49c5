#include "dist/fold_in_order.h"

#include <algorithm>
#include <cstddef>

namespace spillway {
namespace {

// A block stays in the first cache while all contributions are added to it.
constexpr size_t kBlockElems = 2048;

}  // namespace

void fold_in_order(std::span<float> part, std::span<const float* const> contributions) {
  for (size_t begin = 0; begin < part.size(); begin += kBlockElems) {
    const size_t count = std::min(kBlockElems, part.size() - begin);
    float* __restrict const sum = part.data() + begin;
    for (const float* const contribution : contributions) {
      const float* __restrict const addend = contribution + begin;
      for (size_t i = 0; i < count; ++i) sum[i] += addend[i];
    }
  }
}

}  // namespace spillway
