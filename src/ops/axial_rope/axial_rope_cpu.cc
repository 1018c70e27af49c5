#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/axial_rope/axial_rope_cpu.cc"
#include <hwy/foreach_target.h>

#include <cmath>

#include "ops/axial_rope/frequencies.h"
#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

// Of each pair cos and sin, each twice, so that they lie beside both elements of the pair.
struct TurnTables {
  alignas(64) float cosines[kMaxAxialHeadSize], sines[kMaxAxialHeadSize];
};

void fill_turn_tables(const AxialFrequencies& frequencies, const int32_t* position, TurnTables& tables) {
  constexpr double kTurn = 6.283185307179586476925;
  for (int32_t i = 0; i < frequencies.pairs; ++i) {
    const double angle = position[frequencies.axis[i]] * frequencies.angle[i];
    const auto small = static_cast<float>(angle - std::nearbyint(angle / kTurn) * kTurn);
    tables.cosines[2 * i] = tables.cosines[2 * i + 1] = small;
  }
  const auto sine = [](Vector v) HWY_ATTR { return hn::Sin(Floats(), v); };
  const auto cosine = [](Vector v) HWY_ATTR { return hn::Cos(Floats(), v); };
  map(0, 2 * frequencies.pairs, sine, tables.sines, tables.cosines);
  map(0, 2 * frequencies.pairs, cosine, tables.cosines, tables.cosines);
}

// (a, b) becomes (a c - b s, b c + a s), for all pairs of a head.
template <typename T>
void turn_pairs(const T* x, int64_t size, const TurnTables& tables, T* out) {
#if HWY_TARGET == HWY_SCALAR  // a vector is no whole pair
  for (int64_t i = 0; i < size; i += 2) {
    const Vector a = load(x + i), b = load(x + i + 1), c = load(tables.cosines + i), s = load(tables.sines + i);
    store(hn::NegMulAdd(b, s, hn::Mul(a, c)), out + i);
    store(hn::MulAdd(a, s, hn::Mul(b, c)), out + i + 1);
  }
#else
  const auto turn = [](Vector v, Vector c, Vector s) HWY_ATTR {
    const Vector other = hn::Shuffle2301(v);  // of the pair
    return hn::MulAdd(other, hn::OddEven(s, hn::Neg(s)), hn::Mul(v, c));
  };
  map(0, size, turn, out, x, tables.cosines, tables.sines);
#endif
}

void axial_rope(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &positions = args.inputs[1];
  const AxialFrequencies frequencies(args.attributes);
  const int64_t size = 2 * int64_t{frequencies.pairs}, width = x.shape[1];
  args.threads->parallel_for(x.shape[0], row_grain(2 * width), [&](int64_t begin, int64_t end, int) {
    TurnTables tables;
    for (int64_t row = begin; row < end; ++row) {
      fill_turn_tables(frequencies, positions.as<int32_t>() + row * positions.shape[1], tables);
      with_real(x.dtype, [&]<typename T>(T*) {
        for (int64_t at = row * width; at < (row + 1) * width; at += size)
          turn_pairs(x.as<T>() + at, size, tables, args.outputs[0].as<T>() + at);
      });
    }
  });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(axial_rope);
void axial_rope_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(axial_rope)(args); }
}  // namespace spillway::ops
#endif
