#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/layer_norm/layer_norm_cpu.cc"
#include <hwy/foreach_target.h>

#include <cmath>

#include "ops/column_sums-inl.h"
#include "ops/layer_norm/operands.h"
#include "ops/modulation/sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

// Loads the vector at `from`, whose last lanes are zero if fewer are left.
template <typename T>
HWY_INLINE Vector load_up_to(const T* from, int64_t left) {
  return left >= lanes() ? load(from) : load_some(from, left);
}
template <typename T>
HWY_INLINE void store_up_to(Vector v, T* to, int64_t left) {
  if (left >= lanes()) {
    store(v, to);
  } else {
    store_some(v, to, left);
  }
}

struct RowStatistics {
  float mean, rstd;
};

// Uses two passes, so that nothing cancels if the mean is far from 0.
template <typename X>
RowStatistics statistics_of(const X* x, int64_t width, double eps) {
  const auto count = static_cast<double>(width);
  const float mean = static_cast<float>(sum(
                                            width, [](Vector v) HWY_ATTR { return v; }, x) /
                                        count);
  const auto squared = [mean](Vector v) HWY_ATTR {
    const Vector d = hn::Sub(v, constant(mean));
    return hn::Mul(d, d);
  };
  const int64_t whole = width / lanes() * lanes();
  double squares = sum(whole, squared, x);
  for (int64_t i = whole; i < width; ++i) {
    const double d = double{to_float(x[i])} - double{mean};
    squares += d * d;
  }
  return {mean, static_cast<float>(1 / std::sqrt(squares / count + eps))};
}

template <typename X, typename W>
void norm_row(const X* x, RowStatistics row, const RowFactors<W>& factors, int64_t width, X* y) {
  for (int64_t i = 0; i < width; i += lanes()) {
    const int64_t left = width - i;
    Vector v = hn::Mul(hn::Sub(load_up_to(x + i, left), constant(row.mean)), constant(row.rstd));
    if (factors.weight != nullptr) {
      const Vector bias = factors.bias == nullptr ? zero() : load_up_to(factors.bias + i, left);
      v = hn::MulAdd(v, hn::Add(load_up_to(factors.weight + i, left), constant(factors.weight_shift)), bias);
    }
    if (factors.scale != nullptr) {
      const Vector scale = hn::Add(load_up_to(factors.scale + i, left), constant(1));
      v = hn::MulAdd(v, scale, load_up_to(factors.shift + i, left));
    }
    store_up_to(v, y + i, left);
  }
}

// The forward kernel; bound by memory: a row is read three times, all but the first from the first cache.
void layer_norm(const KernelArgs& args) {
  using namespace layer_norm_op;
  const TensorView &x = args.inputs[kX], &weight = args.inputs[kWeight], &y = args.outputs[0];
  const ModulationRows modulation(x, args.inputs[kModulation], args.inputs[kSeqOffsets], kMaxCpuBlocks);
  const int64_t width = x.shape[1];
  const int64_t scale = args.attributes.integer("scale"), shift = args.attributes.integer("shift");
  const double eps = args.attributes.real("eps");
  with_real(x.dtype, [&]<typename X>(X*) {
    with_real(weight.dtype, [&]<typename W>(W*) {
      args.threads->parallel_for(x.shape[0], row_grain(width), [&](int64_t begin, int64_t end, int) {
        auto factors = factors_of<W>(weight, args.inputs[kBias], args.attributes);
        for (int64_t row = begin; row < end; ++row) {
          const int64_t sequence = modulation.blocks.sequence_of(row);
          factors.scale = modulation.part_of(sequence, scale);
          factors.shift = modulation.part_of(sequence, shift);
          const RowStatistics statistics = statistics_of(x.as<X>() + row * width, width, eps);
          args.outputs[1].as<float>()[2 * row] = statistics.mean;
          args.outputs[1].as<float>()[2 * row + 1] = statistics.rstd;
          norm_row(x.as<X>() + row * width, statistics, factors, width, y.as<X>() + row * width);
        }
      });
    });
  });
}

// A row of the backward pass. With n = (x - mean) * rstd and g = dy * weight * (1 + scale): dx = rstd * (g - mean(g) -
// n * mean(g * n)) + addend; dy * n is added to `products`, the sums for the weight's or the scale's gradient, and dy
// to `sums`, those for the bias's or the shift's, if these are wanted.
template <typename X, typename W>
struct GradRow {
  const X *x, *dy, *addend;
  RowStatistics row;
  RowFactors<W> factors;
  int64_t width;

  HWY_INLINE Vector normal(int64_t i) const {
    const Vector centred = hn::Sub(load_up_to(x + i, width - i), constant(row.mean));
    return hn::Mul(centred, constant(row.rstd));
  }
  // Returns the gradient, zero past the end, as dy is.
  HWY_INLINE Vector gradient(int64_t i) const {
    Vector g = load_up_to(dy + i, width - i);
    if (factors.weight != nullptr)
      g = hn::Mul(g, hn::Add(load_up_to(factors.weight + i, width - i), constant(factors.weight_shift)));
    if (factors.scale != nullptr) g = hn::Mul(g, hn::Add(load_up_to(factors.scale + i, width - i), constant(1)));
    return g;
  }

  void run(X* dx, float* products, float* sums) const {
    Vector g_sum = zero(), gn_sum = zero();
    for (int64_t i = 0; i < width; i += lanes()) {
      const Vector g = gradient(i);
      g_sum = hn::Add(g_sum, g);
      gn_sum = hn::MulAdd(g, normal(i), gn_sum);
    }
    const auto count = static_cast<float>(width);
    const float g_mean = hn::GetLane(hn::SumOfLanes(Floats(), g_sum)) / count;
    const float gn_mean = hn::GetLane(hn::SumOfLanes(Floats(), gn_sum)) / count;
    for (int64_t i = 0; i < width; i += lanes()) {
      const int64_t left = width - i;
      const Vector n = normal(i);
      if (products != nullptr) {
        const Vector d = load_up_to(dy + i, left);
        store_up_to(hn::MulAdd(d, n, load_up_to(products + i, left)), products + i, left);
        store_up_to(hn::Add(d, load_up_to(sums + i, left)), sums + i, left);
      }
      Vector v = hn::NegMulAdd(n, constant(gn_mean), hn::Sub(gradient(i), constant(g_mean)));
      v = hn::Mul(v, constant(row.rstd));
      if (addend != nullptr) v = hn::Add(v, load_up_to(addend + i, left));
      store_up_to(v, dx + i, left);
    }
  }
};

template <typename X, typename W>
void layer_norm_grad_block(const KernelArgs& args, const ModulationRows& modulation, const TokenBlock& block,
                           float* products, float* sums) {
  using namespace layer_norm_op;
  const int64_t width = modulation.width;
  const auto* statistics = args.inputs[kGradStatistics].as<float>();
  const X* addend = args.inputs[kGradAddend].as<X>();
  const int64_t scale = args.attributes.integer("scale");
  for (int64_t token = block.begin; token < block.end; ++token) {
    const int64_t at = token * width;
    const GradRow<X, W> row{.x = args.inputs[kGradX].as<X>() + at,
                            .dy = args.inputs[kGradDy].as<X>() + at,
                            .addend = addend == nullptr ? nullptr : addend + at,
                            .row = {statistics[2 * token], statistics[2 * token + 1]},
                            .factors = {.weight = args.inputs[kGradWeight].as<W>(),
                                        .scale = modulation.part_of(block.sequence, scale),
                                        .weight_shift = weight_shift_of(args.attributes)},
                            .width = width};
    row.run(args.outputs[0].as<X>() + at, products, sums);
  }
}

void layer_norm_grad(const KernelArgs& args) {
  using namespace layer_norm_op;
  const TensorView& x = args.inputs[kGradX];
  const ModulationRows modulation(x, args.inputs[kGradModulation], args.inputs[kGradSeqOffsets], kMaxCpuBlocks);
  const int64_t width = x.shape[1], blocks = modulation.blocks.bound();
  const bool wants_sums = args.outputs.size() > 1;
  auto* const products = reinterpret_cast<float*>(args.workspace);
  float* const sums = products + blocks * width;
  args.threads->parallel_for(blocks, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t index = begin; index < end; ++index) {
      const int64_t at = index * width;
      if (wants_sums) {
        std::fill_n(products + at, width, 0.0f);
        std::fill_n(sums + at, width, 0.0f);
      }
      with_real(x.dtype, [&]<typename X>(X*) {
        with_real(args.inputs[kGradWeight].dtype, [&]<typename W>(W*) {
          layer_norm_grad_block<X, W>(args, modulation, modulation.blocks[index], wants_sums ? products + at : nullptr,
                                      wants_sums ? sums + at : nullptr);
        });
      });
    }
  });
  if (!wants_sums) return;
  if (modulation.rows != nullptr) {
    const PartSums parts[] = {{args.attributes.integer("scale"), products}, {args.attributes.integer("shift"), sums}};
    add_parts(modulation, parts, args.inputs[kGradFirstAddend], args.outputs[kFirstSum], *args.threads);
  } else {
    add_blocks(products, blocks, args.inputs[kGradFirstAddend], args.outputs[kFirstSum], *args.threads);
    add_blocks(sums, blocks, args.inputs[kGradSecondAddend], args.outputs[kSecondSum], *args.threads);
  }
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(layer_norm);
HWY_EXPORT(layer_norm_grad);
void layer_norm_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(layer_norm)(args); }
void layer_norm_grad_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(layer_norm_grad)(args); }
}  // namespace spillway::ops
#endif
