// The instruction sets that the vector kernels of src/ops are compiled for, and how kernels are called. Included first
// in every <op>_cpu.cc, before <hwy/foreach_target.h>, which compiles that file once for each of them:
//
//   #include "ops/simd.h"
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "ops/add/add_cpu.cc"
//   #include <hwy/foreach_target.h>
//   #include "ops/vector-inl.h"
//   HWY_BEFORE_NAMESPACE();
//   namespace spillway::ops::HWY_NAMESPACE { void add(const KernelArgs& args) { ... } }
//   HWY_AFTER_NAMESPACE();
//   #if HWY_ONCE
//   namespace spillway::ops { HWY_EXPORT(add); void add_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(add)(args);
//   } } #endif
//
// Several of these files are compiled at once (spillway_vector_unity in cmake/Spillway.cmake): a name in HWY_NAMESPACE
// must be no other file's, and using-directives stand in functions.
#pragma once

// Machines for training have AVX2, AVX-512 and the baseline; the others would only cost compile time.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#endif

#include "backend/kernel.h"
#include "base/parallel.h"
#include "ops/real.h"

namespace spillway::ops {

// The least number of elements of one chunk of an elementwise kernel: some microseconds of work.
constexpr int64_t kElementGrain = int64_t{1} << 14;

// Returns the rows of `width` elements for about as much work.
[[nodiscard]] constexpr int64_t row_grain(int64_t width) {
  return width >= kElementGrain ? 1 : kElementGrain / (width > 0 ? width : 1);
}

}  // namespace spillway::ops
