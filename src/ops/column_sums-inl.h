// The last step of sums over rows, see ops/column_sums.h; compiled once for each instruction set.
#if defined(SPILLWAY_OPS_COLUMN_SUMS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPS_COLUMN_SUMS_INL_H
#undef SPILLWAY_OPS_COLUMN_SUMS_INL_H
#else
#define SPILLWAY_OPS_COLUMN_SUMS_INL_H
#endif

#include "ops/column_sums.h"
#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

// Computes out[j] = addend[j] (if there is one) + partial[0][j] + partial[1][j] + ...; overwrites `partial`.
inline void add_blocks(float* partial, int64_t blocks, const TensorView& addend, const TensorView& out,
                       ThreadPool& threads) {
  const int64_t columns = out.elems();
  threads.parallel_for(columns, row_grain(blocks), [&](int64_t begin, int64_t end, int) HWY_ATTR {
    const auto plus = [](Vector a, Vector b) HWY_ATTR { return hn::Add(a, b); };
    if (blocks == 0) std::fill(partial + begin, partial + end, 0.0f);
    for (int64_t block = 1; block < blocks; ++block) {
      map(begin, end, plus, partial, partial, partial + block * columns);
    }
    with_real(out.dtype, [&]<typename T>(T*) HWY_ATTR {
      if (addend.data != nullptr) {
        map(begin, end, plus, out.as<T>(), addend.as<T>(), partial);
      } else {
        map(
            begin, end, [](Vector v) HWY_ATTR { return v; }, out.as<T>(), partial);
      }
    });
  });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
