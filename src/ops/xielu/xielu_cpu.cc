// The kernels are bound by memory, and where x is negative by its exponential.
#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/xielu/xielu_cpu.cc"
#include <hwy/foreach_target.h>

#include <algorithm>

#include "ops/column_sums.h"
#include "ops/vector-inl.h"
#include "ops/xielu/formula-inl.h"
#include "ops/xielu/operands.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

Xielu xielu_of(const KernelArgs& args) {
  using namespace xielu_op;
  Xielu result{};
  with_real(args.inputs[kAlphaP].dtype, [&]<typename Alpha>(Alpha*) {
    result = Xielu::of(to_float(*args.inputs[kAlphaP].as<Alpha>()), to_float(*args.inputs[kAlphaN].as<Alpha>()),
                       *args.inputs[kBeta].as<float>(), *args.inputs[kEps].as<float>());
  });
  return result;
}

void xielu(const KernelArgs& args) {
  const Xielu formula = xielu_of(args);
  const TensorView &x = args.inputs[xielu_op::kX], &out = args.outputs[0];
  with_real(x.dtype, [&]<typename T>(T*) {
    args.threads->parallel_for(out.elems(), kElementGrain, [&](int64_t begin, int64_t end, int) HWY_ATTR {
      map(
          begin, end, [&](Vector v) HWY_ATTR { return formula.value(v).v; }, out.as<T>(), x.as<T>());
    });
  });
}

// The sums for the gradients of the trained numbers.
struct AlphaSums {
  double p = 0, n = 0;
};

// Computes dx = slope(x) dy of a row, and adds dy times what the trained numbers multiply to `sums`, if there are any.
template <typename T>
void grad_row(const Xielu& formula, const T* x, const T* dy, int64_t width, T* dx, AlphaSums* sums) {
  if (sums != nullptr) {
    sums->p += sum(
        width, [&](Vector v, Vector d) HWY_ATTR { return hn::Mul(Xielu::of_p(v).v, d); }, x, dy);
    sums->n += sum(
        width, [&](Vector v, Vector d) HWY_ATTR { return hn::Mul(formula.of_n(v).v, d); }, x, dy);
  }
  map(
      0, width, [&](Vector v, Vector d) HWY_ATTR { return hn::Mul(formula.slope(v).v, d); }, dx, x, dy);
}

// Writes addend (if there is one) + slope * the sum of the blocks' sums.
void write_alpha(double sum, float slope, const TensorView& addend, const TensorView& out) {
  with_real(out.dtype, [&]<typename T>(T*) {
    const float more = addend.data == nullptr ? 0 : to_float(*addend.as<T>());
    store_some(constant(more + static_cast<float>(sum * double{slope})), out.as<T>(), 1);
  });
}

void xielu_grad(const KernelArgs& args) {
  using namespace xielu_op;
  const Xielu formula = xielu_of(args);
  const TensorView &x = args.inputs[kX], &dy = args.inputs[kDy];
  const int64_t rows = x.shape[0], width = x.shape[1], block_rows = rows_of_block(rows);
  const int64_t blocks = div_ceil(rows, block_rows);
  const bool wants_alphas = args.attributes.integer("wants_alphas") != 0;
  auto* const partial = wants_alphas ? reinterpret_cast<AlphaSums*>(args.workspace) : nullptr;
  with_real(x.dtype, [&]<typename T>(T*) {
    args.threads->parallel_for(blocks, 1, [&](int64_t begin, int64_t end, int) HWY_ATTR {
      for (int64_t block = begin; block < end; ++block) {
        AlphaSums sums;
        for (int64_t row = block * block_rows; row < std::min(rows, (block + 1) * block_rows); ++row)
          grad_row(formula, x.as<T>() + row * width, dy.as<T>() + row * width, width,
                   args.outputs[0].as<T>() + row * width, wants_alphas ? &sums : nullptr);
        if (wants_alphas) partial[block] = sums;
      }
    });
  });
  if (!wants_alphas) return;
  AlphaSums total;
  for (int64_t block = 0; block < blocks; ++block) {
    total.p += partial[block].p;
    total.n += partial[block].n;
  }
  write_alpha(total.p, formula.p_slope, args.inputs[kAlphaPAddend], args.outputs[kDAlphaP]);
  write_alpha(total.n, formula.n_slope, args.inputs[kAlphaNAddend], args.outputs[kDAlphaN]);
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(xielu);
HWY_EXPORT(xielu_grad);
void xielu_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(xielu)(args); }
void xielu_grad_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(xielu_grad)(args); }
}  // namespace spillway::ops
#endif
