// The formats' formulas, for kernels of both devices. Each format has
//
//   bounds()    what the least and the largest element of a group become: the ends of the range that it covers
//   Scale       what the elements of a group share
//   position()  an element in steps, unrounded
//   code()      the same rounded, within the format's range
//   value()     what a code stands for
//
// and, where gradients differ from passing, is_outside() and pulls(). With q and u a code and its position, m = 1
// inside of the range, s the step and z the zero of the group, torchao's graph gives
//
//   d out = m dx + (q - m u) ds + (1 - m) dz
//
// so that the extremes of a group, on which s and z depend, get the sums over the group of dy (q - m u) and dy (1 - m).
#if defined(SPILLWAY_OPS_FAKE_QUANTISE_FORMATS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPS_FAKE_QUANTISE_FORMATS_INL_H
#undef SPILLWAY_OPS_FAKE_QUANTISE_FORMATS_INL_H
#else
#define SPILLWAY_OPS_FAKE_QUANTISE_FORMATS_INL_H
#endif

#include "ops/fake_quantise/operands.h"
#include "ops/number-inl.h"

SPILLWAY_FORMULAS_BEGIN

SPILLWAY_NUMBER_FUNCTION Number clamp(Number x, float least, float most) {
  return math::min(math::max(x, least), most);
}

// The ends of a group's range.
struct FakeRange {
  Number low, high;
};
// The shares of a group's extremes in its gradient: of each least and of each largest element.
struct FakePulls {
  Number low, high;
};
struct FakeSums {
  Number codes, outside;  // of dy (q - m u) and of dy (1 - m)
};

SPILLWAY_NUMBER_FUNCTION FakeRange symmetric(FakeRange range) {
  const Number magnitude = math::max(-range.low, range.high);
  return {-magnitude, magnitude};
}

// Returns x rounded to e4m3, without NaN and what lies beyond 448.
SPILLWAY_NUMBER_FUNCTION Number round_to_e4m3(Number x) {
  constexpr float kMost = 448, kLeastNormal = 0x1p-6F, kMantissa = 0x1p-3F;
  const Number inside = clamp(x, -kMost, kMost);
  const Number step = math::power_of_two_below(math::max(math::abs(inside), kLeastNormal)) * kMantissa;
  return math::round(inside / step) * step;
}

// Returns x rounded to e2m1, whose magnitudes are 0, 0.5, 1, 1.5, 2, 3, 4 and 6.
SPILLWAY_NUMBER_FUNCTION Number round_to_e2m1(Number x) {
  constexpr float kMost = 6;
  const Number inside = clamp(x, -kMost, kMost), magnitude = math::abs(inside);
  const Number step = math::select(magnitude < 2, 0.5F, math::select(magnitude < 4, 1, 2));
  return math::round(inside / step) * step;
}

struct Int4Format {
  static constexpr bool kPasses = false, kPulls = true;
  struct Scale {
    Number step, low;
  };

  SPILLWAY_NUMBER_FUNCTION static FakeRange bounds(FakeRange range) { return range; }
  SPILLWAY_NUMBER_FUNCTION static Scale scale(FakeRange range, Number /*absmax*/) {
    return {math::max(range.high - range.low, 1e-6F) / 15, range.low};
  }
  SPILLWAY_NUMBER_FUNCTION static Number position(Number x, const Scale& s) { return (x - s.low) / s.step; }
  SPILLWAY_NUMBER_FUNCTION static Number code(Number position, const Scale&) {
    return clamp(math::round(position), 0, 15);
  }
  SPILLWAY_NUMBER_FUNCTION static Number value(Number code, const Scale& s) {
    return (code - 8) * s.step + (s.low + s.step * 8);
  }
  SPILLWAY_NUMBER_FUNCTION static Truth is_outside(Number position, const Scale&) {
    return math::round(position) != clamp(math::round(position), 0, 15);
  }
  SPILLWAY_NUMBER_FUNCTION static FakePulls pulls(FakeRange range, const FakeSums& sums, Number lows, Number highs) {
    const Number of_step = math::select(range.high - range.low < 1e-6F, 0, sums.codes / 15);
    return {(sums.outside - of_step) / lows, of_step / highs};
  }
};

// The common part of formats whose step is a share of the largest magnitude.
template <int kShare>
struct SymmetricPulls {
  SPILLWAY_NUMBER_FUNCTION static FakeRange bounds(FakeRange range) { return symmetric(range); }
  SPILLWAY_NUMBER_FUNCTION static FakePulls pulls(FakeRange /*range*/, const FakeSums& sums, Number lows,
                                                  Number highs) {
    const Number of_step = sums.codes / kShare / (lows + highs);
    return {-of_step, of_step};
  }
};

struct Int4OfFloat8Format : SymmetricPulls<8> {
  static constexpr bool kPasses = false, kPulls = true;
  struct Scale {
    Number step, inverse;
  };

  SPILLWAY_NUMBER_FUNCTION static Scale scale(FakeRange range, Number /*absmax*/) {
    const Number step = math::max(range.high / 8, 1e-6F);
    return {step, 1 / step};
  }
  SPILLWAY_NUMBER_FUNCTION static Number position(Number x, const Scale& s) { return x * s.inverse; }
  SPILLWAY_NUMBER_FUNCTION static Number code(Number position, const Scale&) {
    return clamp(math::round(position), -8, 7);
  }
  SPILLWAY_NUMBER_FUNCTION static Number value(Number code, const Scale& s) { return code * s.step; }
  SPILLWAY_NUMBER_FUNCTION static Truth is_outside(Number position, const Scale& s) {
    return math::round(position) != code(position, s);
  }
};

struct Int8Format {
  static constexpr bool kPasses = false, kPulls = false;
  struct Scale {
    Number step, inverse, zero;
  };

  SPILLWAY_NUMBER_FUNCTION static FakeRange bounds(FakeRange range) {
    return {math::min(range.low, 0), math::max(range.high, 0)};
  }
  SPILLWAY_NUMBER_FUNCTION static Scale scale(FakeRange range, Number /*absmax*/) {
    constexpr float kLeastNormal = 0x1p-126F;
    const Number step = math::max((range.high - range.low) / 255, kLeastNormal);
    return {step, 1 / step, clamp(-128 - math::round(range.low / step), -128, 127)};
  }
  SPILLWAY_NUMBER_FUNCTION static Number position(Number x, const Scale& s) { return x * s.inverse; }
  SPILLWAY_NUMBER_FUNCTION static Number code(Number position, const Scale& s) {
    return clamp(math::round(position) + s.zero, -128, 127);
  }
  SPILLWAY_NUMBER_FUNCTION static Number value(Number code, const Scale& s) { return (code - s.zero) * s.step; }
  SPILLWAY_NUMBER_FUNCTION static Truth is_outside(Number position, const Scale& s) {
    return math::round(position) + s.zero != code(position, s);
  }
};

// A row of zeros stays one: its step is no number in torchao.
struct Float8Format : SymmetricPulls<448> {
  static constexpr bool kPasses = false, kPulls = true;
  struct Scale {
    Number step;
  };

  SPILLWAY_NUMBER_FUNCTION static Scale scale(FakeRange range, Number /*absmax*/) {
    return {math::select(Number(0) < range.high, range.high / 448, 1)};
  }
  SPILLWAY_NUMBER_FUNCTION static Number position(Number x, const Scale& s) { return x / s.step; }
  SPILLWAY_NUMBER_FUNCTION static Number code(Number position, const Scale&) { return round_to_e4m3(position); }
  SPILLWAY_NUMBER_FUNCTION static Number value(Number code, const Scale& s) { return code * s.step; }
  SPILLWAY_NUMBER_FUNCTION static Truth is_outside(Number position, const Scale&) {
    return Number(448) < math::abs(position);
  }
};

// The common part of formats of e2m1 in steps of a block.
struct Float4Format {
  static constexpr bool kPasses = true, kPulls = false;
  struct Scale {
    Number step, inverse;
  };

  SPILLWAY_NUMBER_FUNCTION static FakeRange bounds(FakeRange range) { return symmetric(range); }
  SPILLWAY_NUMBER_FUNCTION static Number position(Number x, const Scale& s) { return x * s.inverse; }
  SPILLWAY_NUMBER_FUNCTION static Number code(Number position, const Scale&) { return round_to_e2m1(position); }
  SPILLWAY_NUMBER_FUNCTION static Number value(Number code, const Scale& s) { return code * s.step; }
};

struct Mxfp4Format : Float4Format {
  SPILLWAY_NUMBER_FUNCTION static Scale scale(FakeRange range, Number /*absmax*/) {
    constexpr float kLeast = 0x1p-126F, kMost = 0x1p126F;
    const Number wanted = clamp(range.high / 6, kLeast, kMost), below = math::power_of_two_below(wanted);
    const Number step = math::select(below < wanted, below * 2, below);
    return {step, 1 / step};
  }
};

struct Nvfp4Format : Float4Format {
  SPILLWAY_NUMBER_FUNCTION static Scale scale(FakeRange range, Number absmax) {
    constexpr float kLeast = 0x1p-6F;
    const Number of_tensor = math::select(Number(0) < absmax, absmax / (448 * 6), 1);
    const Number of_block = round_to_e4m3(math::max(range.high / 6 / of_tensor, kLeast));
    return {of_tensor * of_block, (1 / of_tensor) / of_block};
  }
};

// Calls f with the format.
template <typename Function>
void with_fake_format(FakeFormat format, const Function& f) {
  switch (format) {
    case FakeFormat::kInt4:
      return f(Int4Format());
    case FakeFormat::kInt4OfFloat8:
      return f(Int4OfFloat8Format());
    case FakeFormat::kInt8:
      return f(Int8Format());
    case FakeFormat::kFloat8:
      return f(Float8Format());
    case FakeFormat::kMxfp4:
      return f(Mxfp4Format());
    case FakeFormat::kNvfp4:
      return f(Nvfp4Format());
  }
}

SPILLWAY_FORMULAS_END

#endif  // per-target include guard
