// Random orders that depend on a seed alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "base/math.h"
#include "base/random.h"
#include "base/sizes.h"

namespace spillway::data {

// Returns 0, 1, ..., n - 1 in random order (Fisher and Yates), a different one for each stream of a seed.
[[nodiscard]] inline std::vector<int64_t> shuffled(int64_t n, uint64_t seed, uint64_t stream) {
  auto items = make_vector<int64_t>(n);
  std::iota(items.begin(), items.end(), 0);
  RandomStream random(seed, stream);
  for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random.below(narrow<uint32_t>(i))]);
  return items;
}

}  // namespace spillway::data
