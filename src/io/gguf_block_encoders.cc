#include "io/gguf_block_encoders.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>

#include "base/index.h"
#include "io/convert.h"
#include "tensor/dtype.h"

namespace spillway::gguf {
namespace {

using Byte = uint8_t;

constexpr int kSuper = 256;          // values of a block with groups
constexpr float kTooSmall = 1e-15F;  // values that are nothing beside this are 0

// Rounds halves to the even number: beside 1.5 * 2^23, a float has no fraction. std::lrint() would be a call.
int nearest(float value, int least, int most) {
  constexpr float kNoFraction = 12582912;
  const float near = std::clamp(value, static_cast<float>(least), static_cast<float>(most)) + kNoFraction;
  return std::bit_cast<int>(near) - std::bit_cast<int>(kNoFraction);
}

// The scale and minimum of a group: value = scale * level - minimum.
struct Affine {
  float scale = 0, minimum = 0;
};
// The divisors that are tried: levels of the range, widened by first + i * 0.1 for i up to `trials`.
struct Search {
  float first;
  int trials;
};

// Returns the scale and the minimum, which is not negative, that come closest to 32 values by weighted least squares,
// for the levels that one of the tried divisors gives; `levels` [32] gets those.
Affine fit_affine(const float* x, int most, Search search, Byte* levels) {
  constexpr int kGroup = 32;
  std::array<float, kGroup> weights;
  float squares = 0;
  for (int i = 0; i < kGroup; ++i) squares += x[i] * x[i];
  const float typical = std::sqrt(squares / kGroup);
  for (int i = 0; i < kGroup; ++i) nth(weights, i) = typical + std::abs(x[i]);

  float low = x[0], high = x[0], sum_w = weights[0], sum_x = sum_w * x[0];
  for (int i = 1; i < kGroup; ++i) {
    low = std::min(low, x[i]);
    high = std::max(high, x[i]);
    const float w = nth(weights, i);
    sum_w += w;
    sum_x += w * x[i];
  }
  low = std::min(low, 0.0F);
  if (high == low) {
    std::fill_n(levels, kGroup, Byte{0});
    return {0, -low};
  }
  const auto error_of = [&](float scale, float offset, const Byte* at) {
    float error = 0;
    for (int i = 0; i < kGroup; ++i) {
      const float off = scale * static_cast<float>(at[i]) + offset - x[i];
      error += nth(weights, i) * (off * off);
    }
    return error;
  };
  float inverse = static_cast<float>(most) / (high - low), scale = 1 / inverse, offset = low;
  for (int i = 0; i < kGroup; ++i) levels[i] = static_cast<Byte>(nearest(inverse * (x[i] - low), 0, most));
  float best = error_of(scale, offset, levels);
  std::array<Byte, kGroup> tried;
  // Each trial begins at the best offset so far.
  for (int trial = 0; trial <= search.trials; ++trial) {
    inverse = (search.first + 0.1F * static_cast<float>(trial) + static_cast<float>(most)) / (high - offset);
    float sum_l = 0, sum_ll = 0, sum_xl = 0;
    for (int i = 0; i < kGroup; ++i) {
      const int level = nearest(inverse * (x[i] - offset), 0, most);
      nth(tried, i) = static_cast<Byte>(level);
      const auto l = static_cast<float>(level);
      const float w = nth(weights, i);
      sum_l += w * l;
      sum_ll += w * l * l;
      sum_xl += w * l * x[i];
    }
    const float determinant = sum_w * sum_ll - sum_l * sum_l;
    if (determinant <= 0) continue;
    float new_scale = (sum_w * sum_xl - sum_x * sum_l) / determinant;
    float new_offset = (sum_ll * sum_x - sum_l * sum_xl) / determinant;
    if (new_offset > 0) {
      new_offset = 0;
      new_scale = sum_xl / sum_ll;
    }
    const float error = error_of(new_scale, new_offset, tried.data());
    if (error >= best) continue;
    best = error;
    scale = new_scale;
    offset = new_offset;
    std::copy(tried.begin(), tried.end(), levels);
  }
  return {scale, -offset};
}

// Returns the scale that comes closest to 16 values, weighted by their squares, with levels from -32 to 31; `levels`
// [16] gets those, 32 more.
float fit_symmetric(const float* x, Byte* levels) {
  constexpr int kGroup = 16, kHalf = 32;
  float largest = 0, magnitude = 0;
  for (int i = 0; i < kGroup; ++i) {
    if (std::abs(x[i]) <= magnitude) continue;
    magnitude = std::abs(x[i]);
    largest = x[i];
  }
  std::fill_n(levels, kGroup, Byte{0});
  if (magnitude < kTooSmall) return 0;
  float scale = 0, best = 0;
  const auto attempt = [&](float inverse, bool is_first) {
    std::array<Byte, kGroup> tried;
    float sum_lx = 0, sum_ll = 0;
    for (int i = 0; i < kGroup; ++i) {
      const int level = nearest(inverse * x[i], -kHalf, kHalf - 1);
      nth(tried, i) = static_cast<Byte>(level + kHalf);
      const auto l = static_cast<float>(level);
      const float w = x[i] * x[i];
      sum_lx += w * x[i] * l;
      sum_ll += w * l * l;
    }
    if (!is_first && (sum_ll <= 0 || sum_lx * sum_lx <= best * sum_ll)) return;
    scale = sum_ll != 0 ? sum_lx / sum_ll : 0;
    best = scale * sum_lx;
    std::copy(tried.begin(), tried.end(), levels);
  };
  attempt(-static_cast<float>(kHalf) / largest, true);
  for (int step = -9; step <= 9; ++step) {
    if (step != 0) attempt(-(static_cast<float>(kHalf) + 0.1F * static_cast<float>(step)) / largest, false);
  }
  return scale;
}

// Packs six bits of each of eight scales and minima in twelve bytes: the first four of each whole, and the upper two
// bits of the last four above them.
void put_scales(std::span<const int, 8> scales, std::span<const int, 8> minima, Byte* out) {
  for (size_t i = 0; i < 4; ++i) {
    out[i] = static_cast<Byte>(scales[i] | (scales[i + 4] >> 4 << 6));
    out[i + 4] = static_cast<Byte>(minima[i] | (minima[i + 4] >> 4 << 6));
    out[i + 8] = static_cast<Byte>((scales[i + 4] & 0xF) | (minima[i + 4] & 0xF) << 4);
  }
}

// Computes levels up to `most` of a block in 8 groups, `levels` [256], and writes its 16 bytes of scales.
void encode_groups(const float* x, int most, Search search, Byte* block, Byte* levels) {
  constexpr size_t kGroups = 8;
  std::array<Affine, kGroups> fits;
  float largest_scale = 0, largest_minimum = 0;
  for (size_t g = 0; g < kGroups; ++g) {
    fits[g] = fit_affine(x + 32 * g, most, search, levels + 32 * g);
    largest_scale = std::max(largest_scale, fits[g].scale);
    largest_minimum = std::max(largest_minimum, fits[g].minimum);
  }
  const float per_scale = largest_scale > 0 ? 63 / largest_scale : 0;
  const float per_minimum = largest_minimum > 0 ? 63 / largest_minimum : 0;
  std::array<int, kGroups> scales, minima;
  for (size_t g = 0; g < kGroups; ++g) {
    scales[g] = nearest(per_scale * fits[g].scale, 0, 63);
    minima[g] = nearest(per_minimum * fits[g].minimum, 0, 63);
  }
  const float d = put_half(largest_scale / 63, block), dmin = put_half(largest_minimum / 63, block + 2);
  put_scales(scales, minima, block + 4);
  // Uses the scales as they are written.
  for (size_t g = 0; g < kGroups; ++g) {
    const float scale = d * static_cast<float>(scales[g]), minimum = dmin * static_cast<float>(minima[g]);
    if (scale == 0) continue;
    for (size_t i = 32 * g; i < 32 * g + 32; ++i)
      levels[i] = static_cast<Byte>(nearest((x[i] + minimum) / scale, 0, most));
  }
}

// Writes the low four bits of 256 levels: in each 64, those of the first half below those of the second.
void put_nibbles(const Byte* levels, Byte* out) {
  for (int i = 0; i < kSuper; ++i) {
    Byte& byte = out[i / 64 * 32 + i % 32];
    const auto low = static_cast<Byte>(levels[i] & 0xF);
    byte = i % 64 < 32 ? low : static_cast<Byte>(byte | low << 4);
  }
}

// Writes 32 levels of five bits: nibbles as value i below value i + 16, and the fifth bits in order.
void put_five_bits(const Byte* levels, Byte* high, Byte* nibbles) {
  std::fill_n(high, 4, Byte{0});
  for (int i = 0; i < 32; ++i) high[i / 8] = static_cast<Byte>(high[i / 8] | levels[i] >> 4 << i % 8);
  for (int i = 0; i < 16; ++i) nibbles[i] = static_cast<Byte>((levels[i] & 0xF) | (levels[i + 16] & 0xF) << 4);
}

}  // namespace

float put_half(float value, uint8_t* out) {
  f16 half;
  convert_floats(&value, DType::kF32, &half, DType::kF16, 1);
  std::memcpy(out, &half.bits, 2);
  return to_float(half);
}

void encode_q5_0(const float* x, Byte* block) {
  float largest = 0;
  for (int i = 0; i < 32; ++i) {
    if (std::abs(x[i]) > std::abs(largest)) largest = x[i];
  }
  const float scale = largest / -16, inverse = scale != 0 ? 1 / scale : 0;
  put_half(scale, block);
  std::array<Byte, 32> levels;
  for (size_t i = 0; i < 32; ++i) levels[i] = static_cast<Byte>(std::min(31, static_cast<int>(x[i] * inverse + 16.5F)));
  put_five_bits(levels.data(), block + 2, block + 6);
}

void encode_q5_1(const float* x, Byte* block) {
  const auto [low, high] = std::minmax_element(x, x + 32);
  const float scale = (*high - *low) / 31, inverse = scale != 0 ? 1 / scale : 0;
  put_half(scale, block);
  put_half(*low, block + 2);
  std::array<Byte, 32> levels;
  for (size_t i = 0; i < 32; ++i) levels[i] = static_cast<Byte>(std::floor((x[i] - *low) * inverse + 0.5F));
  put_five_bits(levels.data(), block + 4, block + 8);
}

void encode_q4_k(const float* x, Byte* block) {
  std::array<Byte, kSuper> levels;
  encode_groups(x, 15, {-1.0F, 20}, block, levels.data());
  put_nibbles(levels.data(), block + 16);
}

void encode_q5_k(const float* x, Byte* block) {
  std::array<Byte, kSuper> levels;
  encode_groups(x, 31, {-0.5F, 15}, block, levels.data());
  std::fill_n(block + 16, 32, Byte{0});
  for (int i = 0; i < kSuper; ++i)
    block[16 + i % 32] = static_cast<Byte>(block[16 + i % 32] | nth(levels, i) >> 4 << i / 32);
  put_nibbles(levels.data(), block + 48);
}

void encode_q6_k(const float* x, Byte* block) {
  constexpr size_t kGroups = 16;
  Byte *nibbles = block, *high = block + 128, *scales = block + 192;
  std::array<float, kGroups> fits;
  std::array<Byte, kSuper> levels;
  float largest = 0;
  for (size_t g = 0; g < kGroups; ++g) {
    fits[g] = fit_symmetric(x + 16 * g, levels.data() + 16 * g);
    if (std::abs(fits[g]) > std::abs(largest)) largest = fits[g];
  }
  std::fill_n(block, 210, Byte{0});
  if (std::abs(largest) < kTooSmall) return;
  const float inverse = -128 / largest;
  const float d = put_half(1 / inverse, block + 208);
  for (size_t g = 0; g < kGroups; ++g) {
    const int written = nearest(inverse * fits[g], -128, 127);
    scales[g] = static_cast<Byte>(static_cast<int8_t>(written));
    const float scale = d * static_cast<float>(written);
    for (size_t i = 16 * g; i < 16 * g + 16; ++i) {
      const int level = scale != 0 ? nearest(x[i] / scale, -32, 31) + 32 : levels[i];
      // In each 128 values: nibbles of the first and third quarter share bytes, and so do the second and fourth.
      const size_t part = i / 128, quarter = i % 128 / 32, column = i % 32;
      Byte& byte = nibbles[64 * part + 32 * (quarter % 2) + column];
      byte = static_cast<Byte>(byte | (level & 0xF) << (quarter / 2 * 4));
      Byte& bits = high[32 * part + column];
      bits = static_cast<Byte>(bits | level >> 4 << 2 * quarter);
    }
  }
}

}  // namespace spillway::gguf
