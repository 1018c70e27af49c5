#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/scale_columns/scale_columns_cpu.cc"
#include <hwy/foreach_target.h>

#include <algorithm>

#include "ops/column_sums-inl.h"
#include "ops/scale_columns/operands.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

// The factor, the bias and the addend; null if absent.
template <typename T, typename Bias>
struct Columns {
  const float* factor;
  const Bias* bias;
  float shift;
  int64_t width;

  HWY_INLINE void row(const T* x, const T* addend, T* out) const {
    int64_t i = 0;
    for (; i + lanes() <= width; i += lanes())
      store(at(
                load(x + i), [&](const auto* from) HWY_ATTR { return load(from + i); }, addend),
            out + i);
    if (i == width) return;
    const int64_t rest = width - i;
    const auto some = [&](const auto* from) HWY_ATTR { return load_some(from + i, rest); };
    store_some(at(load_some(x + i, rest), some, addend), out + i, rest);
  }

 private:
  template <typename Load>
  HWY_INLINE Vector at(Vector v, const Load& get, const T* addend) const {
    if (factor != nullptr) v = hn::Mul(v, hn::Add(get(factor), constant(shift)));
    if (bias != nullptr) v = hn::Add(v, get(bias));
    if (addend != nullptr) v = hn::Add(v, get(addend));
    return v;
  }
};

// The forward kernel; bound by memory.
void scale_columns(const KernelArgs& args) {
  using namespace scale_columns_op;
  const TensorView &x = args.inputs[kX], &bias = args.inputs[kBias], &out = args.outputs[0];
  const int64_t width = x.shape[1];
  const auto shift = static_cast<float>(args.attributes.real("shift"));
  with_real(x.dtype, [&]<typename T>(T*) {
    with_real(bias.data == nullptr ? DType::kF32 : bias.dtype, [&]<typename Bias>(Bias*) {
      const Columns<T, Bias> columns{args.inputs[kFactor].as<float>(), bias.as<Bias>(), shift, width};
      const T* const addend = args.inputs[kAddend].as<T>();
      args.threads->parallel_for(x.shape[0], row_grain(width), [&](int64_t begin, int64_t end, int) HWY_ATTR {
        for (int64_t at = begin * width; at < end * width; at += width)
          columns.row(x.as<T>() + at, addend == nullptr ? nullptr : addend + at, out.as<T>() + at);
      });
    });
  });
}

// Computes dx = dy (factor + shift), and adds dy x to the sums.
template <typename T>
void scale_columns_grad_row(const T* x, const T* dy, const float* factor, float shift, int64_t width, T* dx,
                            float* sums) {
  if (sums != nullptr) {
    const auto more = [](Vector sum, Vector v, Vector d) HWY_ATTR { return hn::MulAdd(v, d, sum); };
    map(0, width, more, sums, sums, x, dy);
  }
  if (factor == nullptr) {
    map(
        0, width, [](Vector d) HWY_ATTR { return d; }, dx, dy);
  } else {
    const Vector more = constant(shift);
    const auto product = [&](Vector d, Vector f) HWY_ATTR { return hn::Mul(d, hn::Add(f, more)); };
    map(0, width, product, dx, dy, factor);
  }
}

void scale_columns_grad(const KernelArgs& args) {
  using namespace scale_columns_op;
  const TensorView &x = args.inputs[kX], &dy = args.inputs[kDy];
  const bool wants_factor = args.attributes.integer("wants_factor") != 0;
  const int64_t rows = x.shape[0], width = x.shape[1], block_rows = rows_of_block(rows);
  const int64_t blocks = div_ceil(rows, block_rows);
  const auto shift = static_cast<float>(args.attributes.real("shift"));
  auto* const partial = wants_factor ? reinterpret_cast<float*>(args.workspace) : nullptr;
  with_real(x.dtype, [&]<typename T>(T*) {
    T* const dx = args.outputs[0].as<T>();
    args.threads->parallel_for(blocks, 1, [&](int64_t begin, int64_t end, int) HWY_ATTR {
      for (int64_t block = begin; block < end; ++block) {
        float* const sums = partial == nullptr ? nullptr : partial + block * width;
        if (sums != nullptr) std::fill_n(sums, width, 0.0f);
        const int64_t last = std::min(rows, (block + 1) * block_rows);
        for (int64_t at = block * block_rows * width; at < last * width; at += width)
          scale_columns_grad_row(x.as<T>() + at, dy.as<T>() + at, args.inputs[kFactor].as<float>(), shift, width,
                                 dx + at, sums);
      }
    });
  });
  if (wants_factor) add_blocks(partial, blocks, args.inputs[kFactorAddend], args.outputs[1], *args.threads);
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(scale_columns);
HWY_EXPORT(scale_columns_grad);
void scale_columns_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(scale_columns)(args); }
void scale_columns_grad_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(scale_columns_grad)(args); }
}  // namespace spillway::ops
#endif
