#include "io/gguf_dequantize.h"

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "io/convert.h"
#include "tensor/dtype.h"

namespace spillway {
namespace {

using Byte = uint8_t;

float half_at(const Byte* bytes) {
  f16 value;
  std::memcpy(&value.bits, bytes, 2);
  return to_float(value);
}

// Returns bit `bit` of a byte, as 0 or `weight`.
int bit_of(Byte byte, int bit, int weight) { return ((byte >> bit) & 1) * weight; }

// Decodes the four legacy encodings of 32 values: [scale][minimum][fifth bits][nibbles]; value i has its low bits in
// the low nibble of byte i, value i + 16 in the high nibble. Without a minimum, integers are centred instead.
template <bool kHasMinimum, bool kFiveBits>
void decode_nibbles(const Byte* block, float* out) {
  const float scale = half_at(block);
  const float minimum = kHasMinimum ? half_at(block + 2) : 0.0f;
  const Byte* high = block + (kHasMinimum ? 4 : 2);
  const Byte* nibbles = high + (kFiveBits ? 4 : 0);
  constexpr int kCentre = kHasMinimum ? 0 : (kFiveBits ? 16 : 8);
  for (int i = 0; i < 32; ++i) {
    int q = i < 16 ? nibbles[i] & 0xF : nibbles[i - 16] >> 4;
    if constexpr (kFiveBits) q |= bit_of(high[i / 8], i % 8, 16);
    const float value = scale * static_cast<float>(q - kCentre);
    out[i] = kHasMinimum ? value + minimum : value;
  }
}

void decode_q8_0(const Byte* block, float* out) {
  const float scale = half_at(block);
  for (int i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(static_cast<int8_t>(block[2 + i]));
}

// The layout is [16 bytes of scale and minimum, a nibble each][2 bits per value][f16 scale of scales][f16 scale of
// minima].
void decode_q2_k(const Byte* block, float* out) {
  const Byte *scales = block, *bits = block + 16;
  const float d = half_at(block + 80), dmin = half_at(block + 82);
  for (int group = 0; group < 16; ++group) {
    const float scale = d * static_cast<float>(scales[group] & 0xF);
    const float minimum = dmin * static_cast<float>(scales[group] >> 4);
    for (int i = group * 16; i < group * 16 + 16; ++i) {
      const int q = (bits[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
      out[i] = scale * static_cast<float>(q) - minimum;
    }
  }
}

// The layout is [third bits][2 bits per value][16 scales of 6 bits][f16]; a third bit that is clear subtracts 4.
void decode_q3_k(const Byte* block, float* out) {
  const Byte *high = block, *bits = block + 32, *scales = block + 96;
  const float d = half_at(block + 108);
  for (int group = 0; group < 16; ++group) {
    const int low = group < 8 ? scales[group] & 0xF : scales[group - 8] >> 4;
    const int top = (scales[8 + group % 4] >> (group / 4 * 2)) & 3;
    const float scale = d * static_cast<float>((low | top << 4) - 32);
    for (int i = group * 16; i < group * 16 + 16; ++i) {
      const int q = (bits[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
      out[i] = scale * static_cast<float>(q - 4 + bit_of(high[i % 32], i / 32, 4));
    }
  }
}

// Eight scales and eight minima of 6 bits in 12 bytes: the first four of each lie in the low 6 bits of bytes 0-3 and
// 4-7, the others take a nibble of bytes 8-11 and the 2 bits that were left over.
struct ScaleAndMinimum {
  int scale, minimum;
};
ScaleAndMinimum unpack_scale(const Byte* packed, int group) {
  if (group < 4) return {packed[group] & 63, packed[group + 4] & 63};
  return {(packed[group + 4] & 0xF) | packed[group - 4] >> 6 << 4, packed[group + 4] >> 4 | packed[group] >> 6 << 4};
}

// The layout is [f16 d][f16 dmin][12 bytes of scales][fifth bits, Q5_K only][4 bits per value].
template <bool kFiveBits>
void decode_q4_k(const Byte* block, float* out) {
  const float d = half_at(block), dmin = half_at(block + 2);
  const Byte *scales = block + 4, *high = block + 16, *nibbles = high + (kFiveBits ? 32 : 0);
  for (int group = 0; group < 8; ++group) {
    const ScaleAndMinimum packed = unpack_scale(scales, group);
    const float scale = d * static_cast<float>(packed.scale), minimum = dmin * static_cast<float>(packed.minimum);
    for (int i = 0; i < 32; ++i) {
      int q = (nibbles[group / 2 * 32 + i] >> (group % 2 * 4)) & 0xF;
      if constexpr (kFiveBits) q |= bit_of(high[i], group, 16);
      out[group * 32 + i] = scale * static_cast<float>(q) - minimum;
    }
  }
}

// The layout is [low nibbles][high 2 bits][16 signed scales][f16].
void decode_q6_k(const Byte* block, float* out) {
  const Byte *low = block, *high = block + 128, *scales = block + 192;
  const float d = half_at(block + 208);
  for (int group = 0; group < 16; ++group) {
    const float scale = d * static_cast<float>(static_cast<int8_t>(scales[group]));
    for (int i = group * 16; i < group * 16 + 16; ++i) {
      const int nibble = (low[i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4)) & 0xF;
      const int top = (high[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
      out[i] = scale * static_cast<float>((nibble | top << 4) - 32);
    }
  }
}

// The values of the nibbles of the IQ4 encodings.
constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
// Twice the values of E2M1 (OCP Microscaling formats 1.0).
constexpr int8_t kMxfp4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// Decodes 32 values of a table: the low nibbles of 16 bytes, then the high ones.
void decode_table(const Byte* nibbles, const int8_t* table, float scale, float* out) {
  for (int i = 0; i < 32; ++i) {
    const int q = i < 16 ? nibbles[i] & 0xF : nibbles[i - 16] >> 4;
    out[i] = scale * static_cast<float>(table[q]);
  }
}

// The layout is [f16 scale][nibbles].
void decode_iq4_nl(const Byte* block, float* out) { decode_table(block + 2, kIq4Values, half_at(block), out); }

// The layout is [f16 scale][2 high bits of each of 8 scales][4 low bits of each][nibbles of groups of 32].
void decode_iq4_xs(const Byte* block, float* out) {
  const float d = half_at(block);
  const int high = block[2] | block[3] << 8;
  for (int group = 0; group < 8; ++group) {
    const int low = (block[4 + group / 2] >> (group % 2 * 4)) & 0xF;
    const int scale = low | ((high >> (2 * group)) & 3) << 4;
    decode_table(block + 8 + group * 16, kIq4Values, d * static_cast<float>(scale - 32), out + group * 32);
  }
}

// The layout is [exponent with bias 127][nibbles]; the table is doubled, so the scale is halved.
void decode_mxfp4(const Byte* block, float* out) {
  decode_table(block + 1, kMxfp4Values, std::ldexp(1.0f, block[0] - 128), out);
}

using Decoder = void (*)(const Byte* block, float* out);

Decoder decoder_of(GgufType type) {
  switch (type) {
    case GgufType::kQ4_0:
      return decode_nibbles<false, false>;
    case GgufType::kQ4_1:
      return decode_nibbles<true, false>;
    case GgufType::kQ5_0:
      return decode_nibbles<false, true>;
    case GgufType::kQ5_1:
      return decode_nibbles<true, true>;
    case GgufType::kQ8_0:
      return decode_q8_0;
    case GgufType::kQ2_K:
      return decode_q2_k;
    case GgufType::kQ3_K:
      return decode_q3_k;
    case GgufType::kQ4_K:
      return decode_q4_k<false>;
    case GgufType::kQ5_K:
      return decode_q4_k<true>;
    case GgufType::kQ6_K:
      return decode_q6_k;
    case GgufType::kIQ4Nl:
      return decode_iq4_nl;
    case GgufType::kIQ4Xs:
      return decode_iq4_xs;
    case GgufType::kMXFP4:
      return decode_mxfp4;
    case GgufType::kF32:
    case GgufType::kF16:
    case GgufType::kBF16:
      break;
  }
  report_bug(__FILE__, __LINE__, "type", "no block encoding");
}

}  // namespace

void dequantize(GgufType type, std::span<const std::byte> blocks, std::span<float> into) {
  const GgufLayout layout = layout_of(type);
  const auto elems = static_cast<int64_t>(into.size());
  SPILLWAY_CHECK(elems % layout.block_elems == 0 &&
                     static_cast<int64_t>(blocks.size()) == elems / layout.block_elems * layout.block_bytes,
                 "{} values in {} bytes of {}", elems, blocks.size(), layout.name);
  switch (type) {
    case GgufType::kF32:
      return convert_floats(blocks.data(), DType::kF32, into.data(), DType::kF32, elems);
    case GgufType::kF16:
      return convert_floats(blocks.data(), DType::kF16, into.data(), DType::kF32, elems);
    case GgufType::kBF16:
      return convert_floats(blocks.data(), DType::kBF16, into.data(), DType::kF32, elems);
    default:
      break;
  }
  const Decoder decode = decoder_of(type);
  const auto* block = reinterpret_cast<const Byte*>(blocks.data());
  for (int64_t i = 0; i < elems; i += layout.block_elems, block += layout.block_bytes) decode(block, into.data() + i);
}

}  // namespace spillway
