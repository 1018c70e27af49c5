#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rms_norm/rms_norm_cpu.cc"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>

#include "ops/column_sums-inl.h"
#include "ops/rms_norm/operands.h"
#include "ops/weight_shift.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

// The forward kernel; bound by memory: a row is read twice, the second time from the first cache.
template <typename X, typename W>
void rms_norm_rows(const KernelArgs& args, int64_t begin, int64_t end) {
  using namespace rms_norm_op;
  const TensorView &x = args.inputs[kX], &w = args.inputs[kWeight], &y = args.outputs[0], &rstd = args.outputs[1];
  const int64_t group = w.shape[0], groups = rstd.shape[1];
  const auto eps = args.attributes.real("eps");
  const float shift = weight_shift_of(args.attributes);
  for (int64_t i = begin * groups; i < end * groups; ++i) {
    const X* from = x.as<X>() + i * group;
    const float squares = sum(
        group, [](Vector v) HWY_ATTR { return hn::Mul(v, v); }, from);
    const auto factor = static_cast<float>(1 / std::sqrt(squares / static_cast<double>(group) + eps));
    rstd.as<float>()[i] = factor;
    const auto scaled = [factor, shift](Vector v, Vector weight) HWY_ATTR {
      return hn::Mul(hn::Mul(v, constant(factor)), hn::Add(weight, constant(shift)));
    };
    map(0, group, scaled, y.as<X>() + i * group, from, w.as<W>());
  }
}

void rms_norm(const KernelArgs& args) {
  using namespace rms_norm_op;
  const TensorView &x = args.inputs[kX], &w = args.inputs[kWeight];
  with_real(x.dtype, [&]<typename X>(X*) {
    with_real(w.dtype, [&]<typename W>(W*) {
      args.threads->parallel_for(x.shape[0], row_grain(x.shape[1]),
                                 [&](int64_t begin, int64_t end, int) { rms_norm_rows<X, W>(args, begin, end); });
    });
  });
}

// Computes, with xhat = x * rstd and w its shifted sum, dx = rstd * (w * dy - xhat * mean(xhat * w * dy)) + addend, and
// dw = sum of xhat * dy over rows and groups. `dw` is null if not wanted.
template <typename X, typename W>
void rms_norm_grad_group(const X* x, const W* w, float shift, float rstd, const X* dy, const X* addend, int64_t group,
                         X* dx, float* dw) {
  const auto product = [shift](Vector v, Vector weight, Vector d)
                           HWY_ATTR { return hn::Mul(hn::Mul(v, hn::Add(weight, constant(shift))), d); };
  const float dot = sum(group, product, x, w, dy);
  const float pull = -rstd * rstd * rstd * dot / static_cast<float>(group);
  if (dw != nullptr) {
    const auto more = [rstd](Vector sums, Vector v, Vector d)
                          HWY_ATTR { return hn::MulAdd(hn::Mul(v, constant(rstd)), d, sums); };
    map(0, group, more, dw, dw, x, dy);
  }
  const auto gradient = [rstd, pull, shift](Vector v, Vector weight, Vector d) HWY_ATTR {
    const Vector scaled = hn::Mul(hn::Mul(hn::Add(weight, constant(shift)), d), constant(rstd));
    return hn::MulAdd(v, constant(pull), scaled);
  };
  if (addend != nullptr) {
    const auto added = [&](Vector v, Vector weight, Vector d, Vector a)
                           HWY_ATTR { return hn::Add(gradient(v, weight, d), a); };
    map(0, group, added, dx, x, w, dy, addend);
  } else {
    map(0, group, gradient, dx, x, w, dy);
  }
}

template <typename X, typename W>
void rms_norm_grad_rows(const KernelArgs& args, int64_t begin, int64_t end, float* dw) {
  using namespace rms_norm_op;
  const TensorView &x = args.inputs[kX], &w = args.inputs[kWeight], &rstd = args.inputs[kRstd], &dy = args.inputs[kDy];
  const X* addend = args.inputs[kXAddend].as<X>();
  const float shift = weight_shift_of(args.attributes);
  const int64_t group = w.shape[0], groups = rstd.shape[1];
  for (int64_t i = begin * groups; i < end * groups; ++i) {
    const int64_t at = i * group;
    rms_norm_grad_group<X, W>(x.as<X>() + at, w.as<W>(), shift, rstd.as<float>()[i], dy.as<X>() + at,
                              addend != nullptr ? addend + at : nullptr, group, args.outputs[0].as<X>() + at, dw);
  }
}

void rms_norm_grad(const KernelArgs& args) {
  using namespace rms_norm_op;
  const TensorView &x = args.inputs[kX], &w = args.inputs[kWeight];
  const bool wants_weight = args.outputs.size() > 1;
  const int64_t rows = x.shape[0], group = w.shape[0], block_rows = rows_of_block(rows);
  auto* partial = reinterpret_cast<float*>(args.workspace);
  args.threads->parallel_for(div_ceil(rows, block_rows), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t block = begin; block < end; ++block) {
      float* dw = wants_weight ? partial + block * group : nullptr;
      if (wants_weight) std::fill(dw, dw + group, 0.0f);
      with_real(x.dtype, [&]<typename X>(X*) {
        with_real(w.dtype, [&]<typename W>(W*) {
          rms_norm_grad_rows<X, W>(args, block * block_rows, std::min(rows, (block + 1) * block_rows), dw);
        });
      });
    }
  });
  if (wants_weight)
    add_blocks(partial, div_ceil(rows, block_rows), args.inputs[kWeightAddend], args.outputs[1], *args.threads);
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(rms_norm);
HWY_EXPORT(rms_norm_grad);
void rms_norm_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(rms_norm)(args); }
void rms_norm_grad_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(rms_norm_grad)(args); }
}  // namespace spillway::ops
#endif
