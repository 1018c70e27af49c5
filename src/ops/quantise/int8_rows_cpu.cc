#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/quantise/int8_rows_cpu.cc"
#include <hwy/foreach_target.h>

#include "ops/vector-inl.h"

#include "base/math.h"
#include "ops/quantise/int8_rows.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

using RowCodes = hn::Rebind<int8_t, Floats>;

HWY_INLINE void quantise_row(const float* weight, int64_t columns, int8_t* codes, float* absmax) {
  Vector largest = zero();
  int64_t i = 0;
  for (; i + lanes() <= columns; i += lanes()) largest = hn::Max(largest, hn::Abs(load(weight + i)));
  if (i < columns) largest = hn::Max(largest, hn::Abs(load_some(weight + i, columns - i)));
  // Rounding keeps order: the largest one rounded is the largest of the rounded ones.
  *absmax = hn::GetLane(hn::MaxOfLanes(Floats(), round_to_f16(largest)));
  const Vector scale = constant(*absmax > 0 ? 127.0F * (1.0F / *absmax) : 0);
  const auto code = [&](Vector v)
                        HWY_ATTR { return hn::DemoteTo(RowCodes(), hn::NearestInt(hn::Mul(round_to_f16(v), scale))); };
  for (i = 0; i + lanes() <= columns; i += lanes()) hn::StoreU(code(load(weight + i)), RowCodes(), codes + i);
  if (i == columns) return;
  alignas(64) int8_t last[kMaxLanes];
  hn::StoreU(code(load_some(weight + i, columns - i)), RowCodes(), last);
  for (int64_t j = i; j < columns; ++j) codes[j] = last[j - i];
}

void quantise_rows(std::span<const float> weight, std::span<int8_t> codes, std::span<float> absmax, ThreadPool& pool) {
  const int64_t rows = static_cast<int64_t>(absmax.size());
  const int64_t columns = static_cast<int64_t>(weight.size()) / rows;
  pool.parallel_for(rows, row_grain(columns), [&](int64_t begin, int64_t end, int) HWY_ATTR {
    for (int64_t row = begin; row < end; ++row) {
      quantise_row(weight.data() + row * columns, columns, codes.data() + row * columns, absmax.data() + row);
    }
  });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
namespace {

HWY_EXPORT(quantise_rows);

// Returns true if there is anything to do.
bool has_rows(size_t elems, size_t codes, size_t rows) {
  SPILLWAY_CHECK(codes == elems && (rows == 0 ? elems == 0 : elems % rows == 0), "{} elements, {} codes, {} rows",
                 elems, codes, rows);
  return rows > 0;
}

}  // namespace

void quantise_int8_rows(std::span<const float> weight, std::span<int8_t> codes, std::span<float> absmax,
                        ThreadPool& pool) {
  if (has_rows(weight.size(), codes.size(), absmax.size()))
    HWY_DYNAMIC_DISPATCH(quantise_rows)(weight, codes, absmax, pool);
}

}  // namespace spillway::ops
#endif
