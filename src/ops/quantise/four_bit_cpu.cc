#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/quantise/four_bit_cpu.cc"
#include <hwy/foreach_target.h>

#include "ops/vector-inl.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/quantise/four_bit.h"
#include "tensor/codebook.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

// Elements that are coded or decoded at once: 16 bytes of codes.
constexpr int64_t kGroup = 32;
#if HWY_TARGET != HWY_SCALAR
using Bytes = hn::FixedTag<uint8_t, 16>;
#endif

// How many of the ascending numbers are below s.
template <size_t kCount>
HWY_INLINE auto count_below(Vector s, const std::array<float, kCount>& numbers) {
  const Words words;
  auto count = hn::Zero(words);
  for (const float number : numbers)
    count = hn::Sub(count, hn::BitCast(words, hn::VecFromMask(Floats(), hn::Lt(constant(number), s))));
  return count;
}

HWY_INLINE auto codes_of(Vector s, FourBitType type) {
  return type == FourBitType::kNf4 ? count_below(s, kNf4Midpoints) : count_below(s, kFp4Midpoints);
}

// Bytes that each hold a code, or for FP4 its place among the ascending ones, to halves of bytes. `count` is a multiple
// of 16.
HWY_INLINE void pack(const uint8_t* codes, int64_t count, FourBitType type, uint8_t* to) {
#if HWY_TARGET == HWY_SCALAR
  const auto code = [&](int64_t i) { return type == FourBitType::kFp4 ? kFp4Ascending[codes[i]] : codes[i]; };
  for (int64_t i = 0; i < count; i += 2) to[i / 2] = static_cast<uint8_t>(code(i) << 4 | code(i + 1));
#else
  const Bytes bytes;
  const hn::Repartition<uint16_t, Bytes> pairs;
  const hn::Rebind<uint8_t, decltype(pairs)> halves;
  alignas(16) uint8_t ascending[16] = {};
  std::copy(kFp4Ascending.begin(), kFp4Ascending.end(), ascending);
  for (int64_t i = 0; i < count; i += 16) {
    auto v = hn::LoadU(bytes, codes + i);
    if (type == FourBitType::kFp4) v = hn::TableLookupBytes(hn::Load(bytes, ascending), v);
    const auto pair = hn::BitCast(pairs, v);
    const auto packed = hn::And(hn::Or(hn::ShiftLeft<4>(pair), hn::ShiftRight<8>(pair)), hn::Set(pairs, 0xFF));
    hn::StoreU(hn::TruncateTo(halves, packed), halves, to + i / 2);
  }
#endif
}

HWY_INLINE Vector clamp(Vector v) { return hn::Max(hn::Min(v, constant(1)), constant(-1)); }

// A whole block.
template <typename T>
HWY_INLINE float quantise_block(const T* weight, const FourBitFormat& format, uint8_t* codes) {
  Vector largest = zero();
  for (int64_t i = 0; i < format.block_size; i += lanes()) largest = hn::Max(largest, hn::Abs(load(weight + i)));
  const float absmax = hn::GetLane(hn::MaxOfLanes(Floats(), largest));
  const Vector inverse = constant(1.0F / std::max(absmax, 1e-38F));
  alignas(64) uint8_t group[kGroup];
  for (int64_t i = 0; i < format.block_size; i += kGroup) {
    for (int64_t j = 0; j < kGroup; j += lanes()) {
      const auto code = codes_of(clamp(hn::Mul(load(weight + i + j), inverse)), format.type);
      const hn::Rebind<uint8_t, Floats> narrow_tag;
      hn::StoreU(hn::TruncateTo(narrow_tag, code), narrow_tag, group + j);
    }
    pack(group, kGroup, format.type, codes + i / 2);
  }
  return absmax;
}

// The last block, of fewer elements than the others: bitsandbytes divides there.
template <typename T>
HWY_INLINE float quantise_short_block(const T* weight, int64_t count, const FourBitFormat& format, uint8_t* codes) {
  float absmax = 1e-38F;
  for (int64_t i = 0; i < count; ++i) absmax = std::max(absmax, std::abs(to_float(weight[i])));
  for (int64_t i = 0; i < count; i += 16) {
    alignas(64) uint8_t group[16];
    alignas(16) uint8_t packed[8];
    for (int64_t j = 0; j < 16; ++j) {
      const float s = i + j < count ? std::clamp(to_float(weight[i + j]) / absmax, -1.0F, 1.0F) : 0;
      group[j] = static_cast<uint8_t>(hn::GetLane(codes_of(constant(s), format.type)));
    }
    pack(group, 16, format.type, packed);
    std::memcpy(codes + i / 2, packed, static_cast<size_t>(four_bit_code_bytes(std::min<int64_t>(16, count - i))));
  }
  return absmax;
}

template <typename T>
void quantise(std::span<const T> weight, const FourBitFormat& format, std::span<uint8_t> codes, std::span<float> absmax,
              ThreadPool& pool) {
  const int64_t elems = static_cast<int64_t>(weight.size()), block = format.block_size;
  pool.parallel_for(
      static_cast<int64_t>(absmax.size()), row_grain(block), [&](int64_t begin, int64_t end, int) HWY_ATTR {
        for (int64_t i = begin; i < end; ++i) {
          const T* from = weight.data() + i * block;
          uint8_t* to = codes.data() + i * block / 2;
          const int64_t count = std::min(block, elems - i * block);
          absmax[static_cast<size_t>(i)] =
              count == block ? quantise_block(from, format, to) : quantise_short_block(from, count, format, to);
        }
      });
}

// The bytes of the values, the first of all of them first.
using Table = std::array<std::array<uint8_t, 16>, 4>;

Table table_of(FourBitType type) {
  Table table{};
  for (size_t code = 0; code < 16; ++code) {
    const uint32_t bits = std::bit_cast<uint32_t>(type == FourBitType::kNf4 ? kNf4[code] : kFp4[code]);
    for (size_t byte = 0; byte < 4; ++byte) table[byte][code] = static_cast<uint8_t>(bits >> (8 * byte));
  }
  return table;
}

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE float look_up(int code, const Table& table) {
  const auto byte = [&](size_t i) { return uint32_t{table[i][static_cast<size_t>(code)]} << (8 * i); };
  return std::bit_cast<float>(byte(0) | byte(1) | byte(2) | byte(3));
}
#else
// The values of 16 codes, each in a byte: their four bytes are looked up one by one, and then interleaved.
HWY_INLINE void look_up(hn::Vec<Bytes> codes, const Table& table, float* to) {
  const Bytes bytes;
  const hn::Repartition<uint16_t, Bytes> pairs;
  const hn::Repartition<float, Bytes> floats;
  const auto part = [&](size_t i) HWY_ATTR { return hn::TableLookupBytes(hn::LoadU(bytes, table[i].data()), codes); };
  const auto b0 = part(0), b1 = part(1), b2 = part(2), b3 = part(3);
  const auto low_begin = hn::BitCast(pairs, hn::InterleaveLower(bytes, b0, b1));
  const auto high_begin = hn::BitCast(pairs, hn::InterleaveLower(bytes, b2, b3));
  const auto low_end = hn::BitCast(pairs, hn::InterleaveUpper(bytes, b0, b1));
  const auto high_end = hn::BitCast(pairs, hn::InterleaveUpper(bytes, b2, b3));
  hn::Store(hn::BitCast(floats, hn::InterleaveLower(pairs, low_begin, high_begin)), floats, to);
  hn::Store(hn::BitCast(floats, hn::InterleaveUpper(pairs, low_begin, high_begin)), floats, to + 4);
  hn::Store(hn::BitCast(floats, hn::InterleaveLower(pairs, low_end, high_end)), floats, to + 8);
  hn::Store(hn::BitCast(floats, hn::InterleaveUpper(pairs, low_end, high_end)), floats, to + 12);
}
#endif

// The values, without their scale, of kGroup codes. `to` is aligned.
HWY_INLINE void unpack(const uint8_t* codes, const Table& table, float* to) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t i = 0; i < kGroup; ++i) to[i] = look_up(i % 2 == 0 ? codes[i / 2] >> 4 : codes[i / 2] & 15, table);
#else
  const Bytes bytes;
  const auto packed = hn::LoadU(bytes, codes);
  const auto high = hn::ShiftRight<4>(packed), low = hn::And(packed, hn::Set(bytes, 15));
  look_up(hn::InterleaveLower(bytes, high, low), table, to);
  look_up(hn::InterleaveUpper(bytes, high, low), table, to + 16);
#endif
}

template <typename T>
void dequantise(std::span<const uint8_t> codes, std::span<const float> absmax, const FourBitFormat& format,
                std::span<T> weight, ThreadPool& pool) {
  const Table table = table_of(format.type);
  const int64_t elems = static_cast<int64_t>(weight.size()), block = format.block_size;
  pool.parallel_for(static_cast<int64_t>(absmax.size()), row_grain(block),
                    [&](int64_t begin, int64_t end, int) HWY_ATTR {
                      alignas(64) float group[kGroup];
                      for (int64_t i = begin * block; i < std::min(end * block, elems); i += kGroup) {
                        const Vector scale = constant(absmax[static_cast<size_t>(i / block)]);
                        const int64_t count = std::min(kGroup, elems - i);
                        alignas(16) uint8_t last[16] = {};
                        const uint8_t* from = codes.data() + i / 2;
                        if (count < kGroup) {
                          std::memcpy(last, from, static_cast<size_t>(four_bit_code_bytes(count)));
                          from = last;
                        }
                        unpack(from, table, group);
                        map(
                            0, count, [&](Vector v) HWY_ATTR { return hn::Mul(v, scale); }, weight.data() + i, group);
                      }
                    });
}

void quantise_f32(std::span<const float> weight, const FourBitFormat& format, std::span<uint8_t> codes,
                  std::span<float> absmax, ThreadPool& pool) {
  quantise(weight, format, codes, absmax, pool);
}
void quantise_bf16(std::span<const bf16> weight, const FourBitFormat& format, std::span<uint8_t> codes,
                   std::span<float> absmax, ThreadPool& pool) {
  quantise(weight, format, codes, absmax, pool);
}
void dequantise_f32(std::span<const uint8_t> codes, std::span<const float> absmax, const FourBitFormat& format,
                    std::span<float> weight, ThreadPool& pool) {
  dequantise(codes, absmax, format, weight, pool);
}
void dequantise_bf16(std::span<const uint8_t> codes, std::span<const float> absmax, const FourBitFormat& format,
                     std::span<bf16> weight, ThreadPool& pool) {
  dequantise(codes, absmax, format, weight, pool);
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
namespace {

HWY_EXPORT(quantise_f32);
HWY_EXPORT(quantise_bf16);
HWY_EXPORT(dequantise_f32);
HWY_EXPORT(dequantise_bf16);

void check_sizes(size_t elems, const FourBitFormat& format, size_t code_bytes, size_t blocks) {
  const int64_t count = static_cast<int64_t>(elems);
  SPILLWAY_CHECK(is_four_bit_block_size(format.block_size), "blocks of {}", format.block_size);
  SPILLWAY_CHECK(static_cast<int64_t>(code_bytes) == four_bit_code_bytes(count) &&
                     static_cast<int64_t>(blocks) == four_bit_blocks(count, format.block_size),
                 "{} elements in blocks of {}, {} bytes of codes, {} scales", count, format.block_size, code_bytes,
                 blocks);
}

}  // namespace

void quantise_four_bit(std::span<const float> weight, const FourBitFormat& format, std::span<uint8_t> codes,
                       std::span<float> absmax, ThreadPool& pool) {
  check_sizes(weight.size(), format, codes.size(), absmax.size());
  HWY_DYNAMIC_DISPATCH(quantise_f32)(weight, format, codes, absmax, pool);
}

void quantise_four_bit(std::span<const bf16> weight, const FourBitFormat& format, std::span<uint8_t> codes,
                       std::span<float> absmax, ThreadPool& pool) {
  check_sizes(weight.size(), format, codes.size(), absmax.size());
  HWY_DYNAMIC_DISPATCH(quantise_bf16)(weight, format, codes, absmax, pool);
}

void dequantise_four_bit(std::span<const uint8_t> codes, std::span<const float> absmax, const FourBitFormat& format,
                         std::span<float> weight, ThreadPool& pool) {
  check_sizes(weight.size(), format, codes.size(), absmax.size());
  HWY_DYNAMIC_DISPATCH(dequantise_f32)(codes, absmax, format, weight, pool);
}

void dequantise_four_bit(std::span<const uint8_t> codes, std::span<const float> absmax, const FourBitFormat& format,
                         std::span<bf16> weight, ThreadPool& pool) {
  check_sizes(weight.size(), format, codes.size(), absmax.size());
  HWY_DYNAMIC_DISPATCH(dequantise_bf16)(codes, absmax, format, weight, pool);
}

}  // namespace spillway::ops
#endif
