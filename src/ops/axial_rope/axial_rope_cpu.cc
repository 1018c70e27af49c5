#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/axial_rope/axial_rope_cpu.cc"
#include <hwy/foreach_target.h>

#include <cmath>

#include "ops/axial_rope/frequencies.h"
#include "ops/turn_pairs-inl.h"
#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

// The cos and sin of each pair, each twice, so that they lie beside both elements of the pair.
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
          turn_pairs(x.as<T>() + at, size, tables.cosines, tables.sines, args.outputs[0].as<T>() + at);
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
