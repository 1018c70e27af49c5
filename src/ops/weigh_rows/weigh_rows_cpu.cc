// The kernels are bound by memory: each row is read once.
#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/weigh_rows/weigh_rows_cpu.cc"
#include <hwy/foreach_target.h>

#include "base/error.h"
#include "ops/vector-inl.h"
#include "ops/weigh_rows/operands.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

// Returns entry i of places, each within [0, count), or i where there are none.
int64_t place_or_own(const TensorView& places, int64_t i, int64_t count) {
  if (places.data == nullptr) return i;
  const int64_t place = places.as<int32_t>()[i];
  SPILLWAY_CHECK(place >= 0 && place < count, "place {} of {}", place, count);
  return place;
}

void weigh_rows(const KernelArgs& args) {
  using namespace weigh_rows_op;
  const TensorView &rows = args.inputs[kRows], &weights = args.inputs[kWeights];
  const int64_t pairs = weights.elems(), width = rows.shape[1] / weights.shape[1];
  with_real(rows.dtype, [&]<typename T>(T*) {
    args.threads->parallel_for(pairs, row_grain(width), [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        const float weight = weights.as<float>()[place_or_own(args.inputs[kOrder], row, pairs)];
        const auto weighed = [weight](Vector v) HWY_ATTR { return hn::Mul(v, constant(weight)); };
        map(0, width, weighed, args.outputs[0].as<T>() + row * width, rows.as<T>() + row * width);
      }
    });
  });
}

void row_products(const KernelArgs& args) {
  using namespace weigh_rows_op;
  const TensorView &rows = args.inputs[kRows], &dy = args.inputs[kDy], &out = args.outputs[0];
  const int64_t pairs = out.elems(), width = rows.shape[1] / out.shape[1];
  with_real(rows.dtype, [&]<typename T>(T*) {
    args.threads->parallel_for(pairs, row_grain(width), [&](int64_t begin, int64_t end, int) {
      const auto product = [](Vector a, Vector b) HWY_ATTR { return hn::Mul(a, b); };
      for (int64_t pair = begin; pair < end; ++pair) {
        const int64_t at = place_or_own(args.inputs[kPlaces], pair, pairs) * width;
        out.as<float>()[pair] = sum(width, product, rows.as<T>() + at, dy.as<T>() + at);
      }
    });
  });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(weigh_rows);
HWY_EXPORT(row_products);
void weigh_rows_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(weigh_rows)(args); }
void row_products_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(row_products)(args); }
}  // namespace spillway::ops
#endif
