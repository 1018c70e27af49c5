#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rope/rope_cpu.cc"
#include <hwy/foreach_target.h>

#include <cmath>

#include "ops/rope/turn.h"
#include "ops/turn_pairs-inl.h"
#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

// The tables of a row: the cos and sin of each pair, and each twice if pairs are neighbours.
struct RowTables {
  alignas(64) float cosines[kMaxHeadSize], sines[kMaxHeadSize];
};

// Fills the tables. The angle is rounded to f32 as in transformers; it is brought near zero in f64, where the vector
// functions are exact to some units in the last place.
void fill_row_tables(const Turn& turn, int64_t row, RowTables& tables) {
  constexpr double kTurn = 6.283185307179586476925;
  const float* frequencies = turn.frequencies_of(row);
  const auto position = static_cast<float>(turn.sign * turn.positions[row]);
  const int64_t times = turn.is_of_pairs != 0 ? 2 : 1, count = times * turn.half;
  for (int64_t i = 0; i < count; ++i) {
    const double angle = position * frequencies[i / times];
    tables.cosines[i] = static_cast<float>(angle - std::nearbyint(angle / kTurn) * kTurn);
  }
  const Vector scaling = constant(turn.scaling_of(row));
  const auto sine = [&](Vector v) HWY_ATTR { return hn::Mul(hn::Sin(Floats(), v), scaling); };
  const auto cosine = [&](Vector v) HWY_ATTR { return hn::Mul(hn::Cos(Floats(), v), scaling); };
  map(0, count, sine, tables.sines, tables.cosines);
  map(0, count, cosine, tables.cosines, tables.cosines);
}

template <typename T>
void turn_halves(const T* x, int64_t half, const RowTables& tables, T* out) {
  const float *cosines = tables.cosines, *sines = tables.sines;
  const auto turn = [&](Vector first, Vector second, Vector c, Vector s, Vector* left, Vector* right) HWY_ATTR {
    *left = hn::NegMulAdd(second, s, hn::Mul(first, c));
    *right = hn::MulAdd(first, s, hn::Mul(second, c));
  };
  Vector left, right;
  int64_t i = 0;
  for (; i + lanes() <= half; i += lanes()) {
    turn(load(x + i), load(x + half + i), load(cosines + i), load(sines + i), &left, &right);
    store(left, out + i);
    store(right, out + half + i);
  }
  if (i == half) return;
  turn(load_some(x + i, half - i), load_some(x + half + i, half - i), load_some(cosines + i, half - i),
       load_some(sines + i, half - i), &left, &right);
  store_some(left, out + i, half - i);
  store_some(right, out + half + i, half - i);
}

template <typename T>
void turn_head(const Turn& turn, const T* x, const RowTables& tables, T* out) {
  const int64_t size = int64_t{2} * turn.half;
  if (turn.is_of_pairs != 0) {
    turn_pairs(x, size, tables.cosines, tables.sines, out);
  } else {
    turn_halves(x, turn.half, tables, out);
  }
  if (out != x && size < turn.head_size) copy_elems(out + size, x + size, turn.head_size - size);
}

void rope(const KernelArgs& args) {
  const TensorView& x = args.inputs[rope_op::kX];
  const Turn turn(args);
  const int64_t width = x.shape[1];
  args.threads->parallel_for(x.shape[0], row_grain(2 * width), [&](int64_t begin, int64_t end, int) {
    RowTables tables;
    for (int64_t row = begin; row < end; ++row) {
      fill_row_tables(turn, row, tables);
      with_real(x.dtype, [&]<typename T>(T*) {
        for (int64_t at = row * width; at < (row + 1) * width; at += turn.head_size)
          turn_head(turn, x.as<T>() + at, tables, args.outputs[0].as<T>() + at);
      });
    }
  });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(rope);
void rope_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(rope)(args); }
}  // namespace spillway::ops
#endif
