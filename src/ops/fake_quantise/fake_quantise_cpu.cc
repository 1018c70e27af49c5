// The kernels are bound by memory. A group is read twice, the second time from the first cache.
#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/fake_quantise/fake_quantise_cpu.cc"
#include <hwy/foreach_target.h>

#include <algorithm>

#include "base/math.h"
#include "ops/fake_quantise/formats-inl.h"
#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

// Calls f(first, count) for the vectors of a group; count < lanes() for an incomplete one.
template <typename Function>
HWY_INLINE void for_vectors_of(int64_t elems, const Function& f) {
  for (int64_t i = 0; i < elems; i += lanes()) f(i, std::min(lanes(), elems - i));
}
HWY_INLINE Number sum_of_lanes(Number x) { return hn::SumOfLanes(Floats(), x.v); }

// Returns the ends of the format's range for a group. The lanes behind an incomplete vector are zeros, which are within
// the range of all formats that take rows.
template <typename Format, typename T>
HWY_INLINE FakeRange range_of(const T* x, int64_t group) {
  Vector low = load_first(x, std::min(lanes(), group)), high = low;
  for_vectors_of(group, [&](int64_t i, int64_t count) HWY_ATTR {
    const Vector v = load_first(x + i, count);
    low = hn::Min(low, v);
    high = hn::Max(high, v);
  });
  return Format::bounds({hn::MinOfLanes(Floats(), low), hn::MaxOfLanes(Floats(), high)});
}

template <typename Format, typename T>
HWY_INLINE void quantise_group(const T* x, T* out, int64_t group, Number absmax) {
  const typename Format::Scale scale = Format::scale(range_of<Format>(x, group), absmax);
  for_vectors_of(group, [&](int64_t i, int64_t count) HWY_ATTR {
    const Number code = Format::code(Format::position(load_first(x + i, count), scale), scale);
    store_first(Format::value(code, scale).v, out + i, count);
  });
}

template <typename Format, typename T>
HWY_INLINE FakePulls pulls_of(const T* x, const T* dy, int64_t group, FakeRange range,
                              const typename Format::Scale& scale) {
  Number codes = 0, outside = 0, lows = 0, highs = 0;
  for_vectors_of(group, [&](int64_t i, int64_t count) HWY_ATTR {
    const Number v = load_first(x + i, count), d = load_first(dy + i, count), u = Format::position(v, scale);
    const Number inside = math::select(Format::is_outside(u, scale), 0, 1);
    codes = codes + d * (Format::code(u, scale) - inside * u);
    outside = outside + d * (1 - inside);
    lows = lows + math::select(v != range.low, 0, 1);
    highs = highs + math::select(v != range.high, 0, 1);
  });
  return Format::pulls(range, {sum_of_lanes(codes), sum_of_lanes(outside)}, sum_of_lanes(lows), sum_of_lanes(highs));
}

template <typename Format, typename T>
HWY_INLINE void gradient_of_group(const T* x, const T* dy, T* dx, int64_t group) {
  const FakeRange range = range_of<Format>(x, group);
  const typename Format::Scale scale = Format::scale(range, 0);
  FakePulls pulls{0, 0};
  if constexpr (Format::kPulls) pulls = pulls_of<Format>(x, dy, group, range, scale);
  for_vectors_of(group, [&](int64_t i, int64_t count) HWY_ATTR {
    const Number v = load_first(x + i, count), d = load_first(dy + i, count);
    Number slope = math::select(Format::is_outside(Format::position(v, scale), scale), 0, d);
    if constexpr (Format::kPulls) {
      slope = slope + math::select(v != range.low, 0, pulls.low) + math::select(v != range.high, 0, pulls.high);
    }
    store_first(slope.v, dx + i, count);
  });
}

bool is_not_quantised(const TensorView& enabled) { return enabled.data != nullptr && *enabled.as<int64_t>() == 0; }

void fake_quantise(const KernelArgs& args) {
  using namespace fake_quantise_op;
  const TensorView &x = args.inputs[kX], &out = args.outputs[0], &absmax = args.inputs[kAbsmax];
  if (x.elems() == 0) return;
  const int64_t group = group_of(args.attributes, x.shape[x.shape.rank() - 1]);
  const bool copies = is_not_quantised(args.inputs[kEnabled]);
  const float most = absmax.data == nullptr ? 0 : *absmax.as<float>();
  with_real(x.dtype, [&]<typename T>(T*) {
    with_fake_format(format_of(args.attributes), [&]<typename Format>(Format) {
      args.threads->parallel_for(x.elems() / group, row_grain(group), [&](int64_t begin, int64_t end, int) HWY_ATTR {
        const T* from = x.as<T>();
        if (copies) return copy_elems(out.as<T>() + begin * group, from + begin * group, (end - begin) * group);
        for (int64_t i = begin; i < end; ++i)
          quantise_group<Format>(from + i * group, out.as<T>() + i * group, group, most);
      });
    });
  });
}

void fake_quantise_grad(const KernelArgs& args) {
  using namespace fake_quantise_op;
  const TensorView &x = args.inputs[kX], &dy = args.inputs[kDy], &dx = args.outputs[0];
  if (x.elems() == 0) return;
  const int64_t group = group_of(args.attributes, x.shape[x.shape.rank() - 1]);
  const bool copies = is_not_quantised(args.inputs[kEnabled]);
  with_real(x.dtype, [&]<typename T>(T*) {
    with_fake_format(format_of(args.attributes), [&]<typename Format>(Format) {
      if constexpr (!Format::kPasses) {
        args.threads->parallel_for(x.elems() / group, row_grain(group), [&](int64_t begin, int64_t end, int) HWY_ATTR {
          for (int64_t i = begin * group; i < end * group; i += group) {
            if (!copies) {
              gradient_of_group<Format>(x.as<T>() + i, dy.as<T>() + i, dx.as<T>() + i, group);
            } else if (dx.data != dy.data) {
              copy_elems(dx.as<T>() + i, dy.as<T>() + i, group);
            }
          }
        });
      }
    });
  });
}

void absmax(const KernelArgs& args) {
  using namespace fake_quantise_op;
  const TensorView& x = args.inputs[0];
  const int64_t blocks = div_ceil(x.elems(), kAbsmaxBlock);
  auto* of_blocks = reinterpret_cast<float*>(args.workspace);
  with_real(x.dtype, [&]<typename T>(T*) {
    args.threads->parallel_for(blocks, 1, [&](int64_t begin, int64_t end, int) HWY_ATTR {
      for (int64_t block = begin; block < end; ++block) {
        const int64_t first = block * kAbsmaxBlock;
        Vector most = zero();
        for_vectors_of(std::min(kAbsmaxBlock, x.elems() - first), [&](int64_t i, int64_t count) HWY_ATTR {
          most = hn::Max(most, hn::Abs(load_first(x.as<T>() + first + i, count)));
        });
        of_blocks[block] = hn::GetLane(hn::MaxOfLanes(Floats(), most));
      }
    });
  });
  float most = 0;
  for (int64_t block = 0; block < blocks; ++block) most = std::max(most, of_blocks[block]);
  *args.outputs[0].as<float>() = most;
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(fake_quantise);
HWY_EXPORT(fake_quantise_grad);
HWY_EXPORT(absmax);
void fake_quantise_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(fake_quantise)(args); }
void fake_quantise_grad_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(fake_quantise_grad)(args); }
void absmax_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(absmax)(args); }
}  // namespace spillway::ops
#endif
