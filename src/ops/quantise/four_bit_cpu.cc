#include "base/sizes.h"
#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/quantise/four_bit_cpu.cc"
#include <hwy/foreach_target.h>

#include "ops/vector-inl.h"

#include <algorithm>
#include <cmath>

#include "base/index.h"
#include "ops/quantise/four_bit.h"
#include "tensor/codebook.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

// The elements that are coded at once: 16 bytes of codes.
constexpr int64_t kGroup = 32;
#if HWY_TARGET != HWY_SCALAR
using Bytes = hn::FixedTag<uint8_t, 16>;
#endif

// Returns how many of the ascending numbers are below s.
template <size_t kCount>
HWY_INLINE auto count_below(Vector s, const std::array<float, kCount>& numbers) {
  const Words words;
  auto count = hn::Zero(words);
  for (const float number : numbers)
    count = hn::Sub(count, hn::BitCast(words, hn::VecFromMask(Floats(), hn::Lt(constant(number), s))));
  return count;
}

HWY_INLINE auto codes_of(Vector s, WeightCoding type) {
  return type == WeightCoding::kNf4 ? count_below(s, kNf4Midpoints) : count_below(s, kFp4Midpoints);
}

// Packs bytes that each hold a code, or for FP4 its place among the ascending ones, to halves of bytes. `count` is a
// multiple of 16.
HWY_INLINE void pack(const uint8_t* codes, int64_t count, WeightCoding type, uint8_t* to) {
#if HWY_TARGET == HWY_SCALAR
  const auto code = [&](int64_t i) { return type == WeightCoding::kFp4 ? kFp4Ascending[codes[i]] : codes[i]; };
  for (int64_t i = 0; i < count; i += 2) to[i / 2] = static_cast<uint8_t>(code(i) << 4 | code(i + 1));
#else
  const Bytes bytes;
  const hn::Repartition<uint16_t, Bytes> pairs;
  const hn::Rebind<uint8_t, decltype(pairs)> halves;
  alignas(16) uint8_t ascending[16] = {};
  std::copy(kFp4Ascending.begin(), kFp4Ascending.end(), ascending);
  for (int64_t i = 0; i < count; i += 16) {
    auto v = hn::LoadU(bytes, codes + i);
    if (type == WeightCoding::kFp4) v = hn::TableLookupBytes(hn::Load(bytes, ascending), v);
    const auto pair = hn::BitCast(pairs, v);
    const auto packed = hn::And(hn::Or(hn::ShiftLeft<4>(pair), hn::ShiftRight<8>(pair)), hn::Set(pairs, 0xFF));
    hn::StoreU(hn::TruncateTo(halves, packed), halves, to + i / 2);
  }
#endif
}

HWY_INLINE Vector clamp(Vector v) { return hn::Max(hn::Min(v, constant(1)), constant(-1)); }

// Quantises a whole block.
HWY_INLINE float quantise_block(const float* weight, const QuantisedFormat& format, uint8_t* codes) {
  Vector largest = zero();
  for (int64_t i = 0; i < format.block_size; i += lanes()) largest = hn::Max(largest, hn::Abs(load(weight + i)));
  const float absmax = hn::GetLane(hn::MaxOfLanes(Floats(), largest));
  const Vector inverse = constant(1.0F / std::max(absmax, 1e-38F));
  alignas(64) uint8_t group[kGroup];
  for (int64_t i = 0; i < format.block_size; i += kGroup) {
    for (int64_t j = 0; j < kGroup; j += lanes()) {
      const auto code = codes_of(clamp(hn::Mul(load(weight + i + j), inverse)), format.coding);
      const hn::Rebind<uint8_t, Floats> narrow_tag;
      hn::StoreU(hn::TruncateTo(narrow_tag, code), narrow_tag, group + j);
    }
    pack(group, kGroup, format.coding, codes + i / 2);
  }
  return absmax;
}

// Quantises the last block, of fewer elements than the others: bitsandbytes divides there.
HWY_INLINE float quantise_short_block(const float* weight, int64_t count, const QuantisedFormat& format,
                                      uint8_t* codes) {
  float absmax = 1e-38F;
  for (int64_t i = 0; i < count; ++i) absmax = std::max(absmax, std::abs(weight[i]));
  for (int64_t i = 0; i < count; i += 16) {
    alignas(64) uint8_t group[16];
    alignas(16) uint8_t packed[8];
    for (int64_t j = 0; j < 16; ++j) {
      const float s = i + j < count ? std::clamp(weight[i + j] / absmax, -1.0F, 1.0F) : 0;
      group[j] = static_cast<uint8_t>(hn::GetLane(codes_of(constant(s), format.coding)));
    }
    pack(group, 16, format.coding, packed);
    copy_memory(codes + i / 2, packed, four_bit_code_bytes(std::min<int64_t>(16, count - i)));
  }
  return absmax;
}

void quantise(std::span<const float> weight, const QuantisedFormat& format, std::span<uint8_t> codes,
              std::span<float> absmax, ThreadPool& pool) {
  const int64_t elems = static_cast<int64_t>(weight.size()), block = format.block_size;
  pool.parallel_for(
      static_cast<int64_t>(absmax.size()), row_grain(block), [&](int64_t begin, int64_t end, int) HWY_ATTR {
        for (int64_t i = begin; i < end; ++i) {
          const float* from = weight.data() + i * block;
          uint8_t* to = codes.data() + i * block / 2;
          const int64_t count = std::min(block, elems - i * block);
          nth(absmax, i) =
              count == block ? quantise_block(from, format, to) : quantise_short_block(from, count, format, to);
        }
      });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
namespace {

HWY_EXPORT(quantise);

void check_sizes(size_t elems, const QuantisedFormat& format, size_t code_bytes, size_t blocks) {
  const int64_t count = static_cast<int64_t>(elems);
  SPILLWAY_CHECK(is_four_bit_block_size(format.block_size), "blocks of {}", format.block_size);
  SPILLWAY_CHECK(static_cast<int64_t>(code_bytes) == four_bit_code_bytes(count) &&
                     static_cast<int64_t>(blocks) == four_bit_blocks(count, format.block_size),
                 "{} elements in blocks of {}, {} bytes of codes, {} scales", count, format.block_size, code_bytes,
                 blocks);
}

}  // namespace

void quantise_four_bit(std::span<const float> weight, const QuantisedFormat& format, std::span<uint8_t> codes,
                       std::span<float> absmax, ThreadPool& pool) {
  check_sizes(weight.size(), format, codes.size(), absmax.size());
  HWY_DYNAMIC_DISPATCH(quantise)(weight, format, codes, absmax, pool);
}

}  // namespace spillway::ops
#endif
