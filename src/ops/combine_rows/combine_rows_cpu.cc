// The kernel is bound by memory: it reads k rows for each that it writes.
#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/combine_rows/combine_rows_cpu.cc"
#include <hwy/foreach_target.h>

#include "base/error.h"
#include "ops/combine_rows/operands.h"
#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

// Adds up the k rows of a token, which are at `places`, and the addend, if there is one.
template <typename T>
void combine_row(const T* rows, const int32_t* places, int64_t k, int64_t width, const T* addend, T* out) {
  const auto sum = [&](const auto& get) HWY_ATTR {
    Vector v = addend == nullptr ? zero() : get(addend);
    for (int64_t i = 0; i < k; ++i) v = hn::Add(v, get(rows + places[i] * width));
    return v;
  };
  int64_t i = 0;
  for (; i + lanes() <= width; i += lanes())
    store(sum([&](const T* from) HWY_ATTR { return load(from + i); }), out + i);
  const int64_t rest = width - i;
  if (rest > 0) store_some(sum([&](const T* from) HWY_ATTR { return load_some(from + i, rest); }), out + i, rest);
}

void combine_rows(const KernelArgs& args) {
  using namespace combine_rows_op;
  const TensorView &rows = args.inputs[kRows], &inverse = args.inputs[kInverse], &out = args.outputs[0];
  const int64_t k = inverse.shape[1], width = out.shape[1];
  with_real(out.dtype, [&]<typename T>(T*) {
    const T* const addend = args.inputs[kAddend].as<T>();
    args.threads->parallel_for(out.shape[0], row_grain(rows.shape[1]), [&](int64_t begin, int64_t end, int) {
      for (int64_t t = begin; t < end; ++t) {
        const int32_t* const places = inverse.as<int32_t>() + t * k;
        for (int64_t i = 0; i < k; ++i)
          SPILLWAY_CHECK(places[i] >= 0 && places[i] < inverse.elems(), "row {} of {}", places[i], inverse.elems());
        combine_row(rows.as<T>(), places, k, width, addend == nullptr ? nullptr : addend + t * width,
                    out.as<T>() + t * width);
      }
    });
  });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(combine_rows);
void combine_rows_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(combine_rows)(args); }
}  // namespace spillway::ops
#endif
