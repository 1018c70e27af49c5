#pragma once

#include <cstdint>

namespace spillway::ops {

// Elements of one partial sum of squared_norm: fixed, so that the sum does not depend on the number of threads.
constexpr int64_t kNormBlockElems = 4096;

}  // namespace spillway::ops
