// Decoding is a look-up: the values of the 16 codes of a block are computed once per block, rounding included. With
// AVX-512 a register holds them, and a permutation looks up 16 f32 or 32 bf16 at a time. Elsewhere they are kept as
// bytes of equal significance, so that a byte shuffle looks up 16. Floor: 0.52 bytes a weight are read; the result
// stays in the first cache.
#include "ops/simd.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/quantised_matmul/four_bit_cpu.cc"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "ops/quantised_matmul/decoders.h"
#include "ops/quantised_matmul/rounding-inl.h"
#include "ops/vector-inl.h"
#include "tensor/codebook.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

constexpr int64_t kTableSize = 16;

// The half of a byte that has the first of its two codes.
enum class FirstCode { kUpper, kLower };

// The rounding of the elements of a weight: to its dtype, then to that of the product's elements.
template <bool kIsHalf, bool kIsBf16>
struct Rounding {
  static constexpr bool kToBf16 = kIsBf16;

  HWY_INLINE Vector operator()(Vector v) const {
    if constexpr (kIsHalf) v = round_to_f16(v);
    if constexpr (kIsBf16) v = hn::BitCast(Floats(), hn::And(number_in_upper_halves(v), hn::Set(Words(), 0xFFFF0000)));
    return v;
  }
};

#if HWY_TARGET == HWY_SCALAR

// The table of a set without shuffles: every element is looked up by itself.
struct Table {
  float values[kTableSize];

  template <typename Values>
  HWY_INLINE void fill(const Values& at, bool) {
    for (int64_t i = 0; i < kTableSize; ++i) store(at(i), values + i);
  }
};
template <FirstCode kFirst, typename T>
HWY_INLINE int64_t decode_steps(const Table&, const uint8_t*, int64_t, bool, T*) {
  return 0;
}

#elif HWY_TARGET <= HWY_AVX3

struct Table {
  alignas(64) float values[kTableSize];
  hn::Vec<Words> bits, upper_bits;  // of the values; the upper halves, in the lower ones

  template <typename Values>
  HWY_INLINE void fill(const Values& at, bool) {
    bits = hn::BitCast(Words(), at(0));
    upper_bits = hn::ShiftRight<16>(bits);
    store(at(0), values);
  }
};

// Returns the values of 16 codes.
HWY_INLINE hn::Vec<Words> look_up(hn::Vec<Words> table, hn::Vec<Words> codes) {
  return hn::TableLookupLanes(table, hn::IndicesFromVec(Words(), codes));
}

// Looks up two codes of each byte.
template <FirstCode kFirst>
HWY_INLINE void look_up(const Table& table, const uint8_t* codes, float* out) {
  const hn::Repartition<uint64_t, Floats> pairs;
  const hn::Rebind<uint32_t, decltype(pairs)> words;
  const auto bytes = hn::PromoteTo(words, hn::LoadU(hn::Rebind<uint8_t, decltype(pairs)>(), codes));
  const auto pair = hn::PromoteTo(pairs, bytes);
  const auto halves = kFirst == FirstCode::kUpper ? hn::Or(hn::ShiftRight<4>(pair), hn::ShiftLeft<32>(pair))
                                                  : hn::Or(pair, hn::ShiftLeft<28>(pair));
  const auto split = hn::And(halves, hn::Set(pairs, uint64_t{15} << 32 | 15));
  store(hn::BitCast(Floats(), look_up(table.bits, hn::BitCast(Words(), split))), out);
}
template <FirstCode kFirst>
HWY_INLINE void look_up(const Table& table, const uint8_t* codes, bf16* out) {
  const auto pair = hn::PromoteTo(Words(), hn::LoadU(hn::Rebind<uint8_t, Words>(), codes));
  const auto upper = hn::ShiftRight<4>(pair), lower = hn::And(pair, hn::Set(Words(), 15));
  const auto first = look_up(table.upper_bits, kFirst == FirstCode::kUpper ? upper : lower);
  const auto second = look_up(table.bits, kFirst == FirstCode::kUpper ? lower : upper);
  hn::StoreU(hn::Or(first, second), Words(), reinterpret_cast<uint32_t*>(out));
}

// Decodes two codes of each byte as far as whole vectors go, and returns how many elements that are.
template <FirstCode kFirst, typename T>
HWY_INLINE int64_t decode_steps(const Table& table, const uint8_t* codes, int64_t count, bool, T* out) {
  constexpr int64_t kStep = 64 / sizeof(T);
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) look_up<kFirst>(table, codes + i / 2, out + i);
  return i;
}

#else

using Codes = hn::Full128<uint8_t>;
using Pairs = hn::Full128<uint16_t>;
using Quads = hn::Full128<uint32_t>;
using Sixteen = hn::Vec<Codes>;

class Table {
 public:
  alignas(64) float values[kTableSize];
  Sixteen planes[4];  // byte i of each value; of bf16 values only the last two are filled

  // A defaulted one would be compiled for another instruction set than the vectors' own.
  HWY_INLINE Table() {}  // NOLINT(modernize-use-equals-default)

  // `at(i)` returns the vector from value i on.
  template <typename Values>
  HWY_INLINE void fill(const Values& at, bool bf16_values) {
    for (int64_t i = 0; i < kTableSize; i += lanes()) store(at(i), values + i);
    if (bf16_values) {
      spread_upper();
    } else {
      spread();
    }
  }

 private:
  // Spreads values whose lower halves are zero.
  HWY_INLINE void spread_upper() {
    const hn::Rebind<uint8_t, Words> bytes;
    alignas(16) uint8_t third[kTableSize], fourth[kTableSize];
    for (int64_t i = 0; i < kTableSize; i += lanes()) {
      const auto bits = hn::BitCast(Words(), load(values + i));
      hn::StoreU(hn::TruncateTo(bytes, hn::ShiftRight<16>(bits)), bytes, third + i);
      hn::StoreU(hn::TruncateTo(bytes, hn::ShiftRight<24>(bits)), bytes, fourth + i);
    }
    planes[2] = hn::Load(Codes(), third);
    planes[3] = hn::Load(Codes(), fourth);
  }

  HWY_INLINE void spread() {
    const Codes d;
    const hn::Full128<uint64_t> d64;
    alignas(16) static constexpr uint8_t kGather[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
    const Sixteen gather = hn::Load(d, kGather);
    const auto four = [&](int i) {
      const auto bytes = hn::Load(d, reinterpret_cast<const uint8_t*>(values) + 16 * i);
      return hn::BitCast(Quads(), hn::TableLookupBytes(bytes, gather));
    };
    const auto p0 = four(0), p1 = four(1), p2 = four(2), p3 = four(3);
    const auto low01 = hn::BitCast(d64, hn::InterleaveLower(Quads(), p0, p1));
    const auto low23 = hn::BitCast(d64, hn::InterleaveLower(Quads(), p2, p3));
    const auto high01 = hn::BitCast(d64, hn::InterleaveUpper(Quads(), p0, p1));
    const auto high23 = hn::BitCast(d64, hn::InterleaveUpper(Quads(), p2, p3));
    planes[0] = hn::BitCast(d, hn::InterleaveLower(d64, low01, low23));
    planes[1] = hn::BitCast(d, hn::InterleaveUpper(d64, low01, low23));
    planes[2] = hn::BitCast(d, hn::InterleaveLower(d64, high01, high23));
    planes[3] = hn::BitCast(d, hn::InterleaveUpper(d64, high01, high23));
  }
};

// Looks up sixteen elements, by their codes in order.
HWY_INLINE void look_up(const Table& table, Sixteen codes, bool, bf16* out) {
  const Codes d;
  const auto low = hn::TableLookupBytes(table.planes[2], codes), high = hn::TableLookupBytes(table.planes[3], codes);
  hn::StoreU(hn::InterleaveLower(d, low, high), d, reinterpret_cast<uint8_t*>(out));
  hn::StoreU(hn::InterleaveUpper(d, low, high), d, reinterpret_cast<uint8_t*>(out + 8));
}
HWY_INLINE void look_up(const Table& table, Sixteen codes, bool bf16_values, float* out) {
  const Codes d;
  const Pairs d16;
  const auto b2 = hn::TableLookupBytes(table.planes[2], codes), b3 = hn::TableLookupBytes(table.planes[3], codes);
  const auto high_a = hn::BitCast(d16, hn::InterleaveLower(d, b2, b3));
  const auto high_b = hn::BitCast(d16, hn::InterleaveUpper(d, b2, b3));
  auto low_a = hn::Zero(d16), low_b = hn::Zero(d16);
  if (!bf16_values) {
    const auto b0 = hn::TableLookupBytes(table.planes[0], codes), b1 = hn::TableLookupBytes(table.planes[1], codes);
    low_a = hn::BitCast(d16, hn::InterleaveLower(d, b0, b1));
    low_b = hn::BitCast(d16, hn::InterleaveUpper(d, b0, b1));
  }
  auto* const bytes = reinterpret_cast<uint8_t*>(out);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d16, low_a, high_a)), d, bytes);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d16, low_a, high_a)), d, bytes + 16);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d16, low_b, high_b)), d, bytes + 32);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d16, low_b, high_b)), d, bytes + 48);
}

// Decodes two codes of each byte as far as whole vectors go, and returns how many elements that are.
template <FirstCode kFirst, typename T>
HWY_INLINE int64_t decode_steps(const Table& table, const uint8_t* codes, int64_t count, bool bf16_values, T* out) {
  constexpr int64_t kStep = 32;
  const Codes d;
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    const Sixteen bytes = hn::LoadU(d, codes + i / 2);
    const auto low = hn::And(bytes, hn::Set(d, 15));
    const auto high = hn::And(hn::BitCast(d, hn::ShiftRight<4>(hn::BitCast(Pairs(), bytes))), hn::Set(d, 15));
    const auto first = kFirst == FirstCode::kUpper ? high : low, second = kFirst == FirstCode::kUpper ? low : high;
    look_up(table, hn::InterleaveLower(d, first, second), bf16_values, out + i);
    look_up(table, hn::InterleaveUpper(d, first, second), bf16_values, out + i + kStep / 2);
  }
  return i;
}

#endif

HWY_INLINE void put(float value, float* out) { *out = value; }
HWY_INLINE void put(float value, bf16* out) { *out = to_bf16(value); }

// Decodes elements [first, first + count) of the flat weight, all of one block.
template <FirstCode kFirst, typename T>
HWY_INLINE void decode_run(const Table& table, const uint8_t* codes, int64_t first, int64_t count, bool bf16_values,
                           T* out) {
  const auto one = [&](int64_t i) {
    const uint8_t pair = codes[(first + i) / 2];
    const bool is_upper = ((first + i) % 2 == 0) == (kFirst == FirstCode::kUpper);
    put(table.values[is_upper ? pair >> 4 : pair & 15], out + i);
  };
  int64_t i = 0;
  if (first % 2 != 0 && count > 0) one(i++);
  i += decode_steps<kFirst>(table, codes + (first + i) / 2, count - i, bf16_values, out + i);
  for (; i < count; ++i) one(i);
}

// The scales of a weight's blocks. Block sizes are powers of two, and nothing divides here.
class Scales {
 public:
  explicit Scales(const QuantisedWeight& weight)
      : scales_(weight.scales),
        nested_(weight.format.double_quant ? weight.nested : nullptr),
        are_powers_(weight.format.coding == WeightCoding::kMxfp4) {
    while (int64_t{1} << shift_ < weight.format.block_size) ++shift_;
    if (nested_ == nullptr) return;
    const int64_t last = (weight.rows * weight.columns - 1) >> shift_;
    offset_ = nested_[last / kNestedBlockSize + 1];
  }
  HWY_INLINE int64_t block_of(int64_t elem) const { return elem >> shift_; }
  HWY_INLINE int64_t end_of(int64_t block) const { return (block + 1) << shift_; }
  HWY_INLINE float operator[](int64_t block) const {
    if (are_powers_) return std::bit_cast<float>(mxfp4_scale_bits(static_cast<const uint8_t*>(scales_)[block]));
    if (nested_ == nullptr) return static_cast<const float*>(scales_)[block];
    const float scaled =
        kDynamicSigned[static_cast<const uint8_t*>(scales_)[block]] * nested_[block / kNestedBlockSize];
    return scaled + offset_;
  }
  // run_at() returns how many blocks from `block` on share a nested scale; vector_at() returns the scales of lanes() of
  // them.
  [[nodiscard]] HWY_INLINE int64_t run_at(int64_t block) const {
    return nested_ == nullptr ? std::numeric_limits<int64_t>::max() : kNestedBlockSize - block % kNestedBlockSize;
  }
  [[nodiscard]] HWY_INLINE Vector vector_at(int64_t block) const {
    if (nested_ == nullptr) return load(static_cast<const float*>(scales_) + block);
    const hn::Rebind<uint8_t, Floats> bytes;
    const hn::Rebind<int32_t, Floats> indices;
    const auto codes = hn::PromoteTo(indices, hn::LoadU(bytes, static_cast<const uint8_t*>(scales_) + block));
    const Vector values = hn::GatherIndex(Floats(), kDynamicSigned.data(), codes);
    return hn::Add(hn::Mul(values, constant(nested_[block / kNestedBlockSize])), constant(offset_));
  }

 private:
  const void* scales_;
  const float* nested_;
  bool are_powers_;
  int shift_ = 0;
  float offset_ = 0;
};

const float* codebook_of(WeightCoding coding) {
  if (coding == WeightCoding::kMxfp4) return kE2m1.data();
  return coding == WeightCoding::kNf4 ? kNf4.data() : kFp4.data();
}

template <typename Rounding, FirstCode kFirst, typename T>
HWY_INLINE void decode_rows(const QuantisedWeight& weight, const cpu::MatrixRange& range, int64_t stride, T* out) {
  const float* const codebook = codebook_of(weight.format.coding);
  const auto* const codes = static_cast<const uint8_t*>(weight.codes);
  const Scales scales(weight);
  Table table;
  int64_t filled = -1;  // the block that the table is of
  for (int64_t row = 0; row < range.rows; ++row) {
    int64_t first = (range.row + row) * weight.columns + range.column;
    const int64_t end = first + range.columns;
    T* to = out + row * stride;
    prefetch_rows(codes + first / 2, weight.columns / 2, range.columns / 2);
    while (first < end) {
      const int64_t block = scales.block_of(first), count = std::min(end, scales.end_of(block)) - first;
      if (block != filled) {
        const Vector scale = constant(scales[block]);
        const auto values = [&](int64_t i) HWY_ATTR { return Rounding()(hn::Mul(load(codebook + i), scale)); };
        table.fill(values, Rounding::kToBf16);
        filled = block;
      }
      decode_run<kFirst>(table, codes, first, count, Rounding::kToBf16, to);
      first += count;
      to += count;
    }
  }
}

template <typename T>
void decode_as(const QuantisedWeight& weight, const cpu::MatrixRange& range, DType elements, int64_t stride, T* out) {
  const DType dtype = weight.format.weight_dtype;
  if (weight.format.coding == WeightCoding::kMxfp4) {
    decode_rows<Rounding<false, true>, FirstCode::kLower>(weight, range, stride, out);
  } else if (dtype == DType::kBF16 || (dtype == DType::kF32 && elements == DType::kBF16)) {
    decode_rows<Rounding<false, true>, FirstCode::kUpper>(weight, range, stride, out);
  } else if (dtype == DType::kF32) {
    decode_rows<Rounding<false, false>, FirstCode::kUpper>(weight, range, stride, out);
  } else if (elements == DType::kBF16) {
    decode_rows<Rounding<true, true>, FirstCode::kUpper>(weight, range, stride, out);
  } else {
    decode_rows<Rounding<true, false>, FirstCode::kUpper>(weight, range, stride, out);
  }
}

void decode_four_bit(const QuantisedWeight& weight, const cpu::MatrixRange& range, DType elements, DType dtype,
                     int64_t stride, void* out) {
  if (dtype == DType::kF32) {
    decode_as(weight, range, elements, stride, static_cast<float*>(out));
  } else {
    decode_as(weight, range, elements, stride, static_cast<bf16*>(out));
  }
}

// Writes the scales of `count` blocks from `first` on; returns true if all of them are zero or far from subnormal and
// infinite numbers.
bool four_bit_scales(const QuantisedWeight& weight, int64_t first, int64_t count, float* out) {
  const Scales scales(weight);
  const Vector min = constant(kMinScale), max = constant(kMaxScale), zero = constant(0);
  bool normal = true;
  const auto put = [&](Vector scale, int64_t i, int64_t lanes_left) HWY_ATTR {
    const Vector size = hn::Abs(scale);
    const auto in_range = hn::And(hn::Ge(size, min), hn::Le(size, max));
    normal &= hn::AllTrue(Floats(), hn::Or(in_range, hn::Eq(size, zero)));
    store_some(scale, out + i, lanes_left);
  };
  for (int64_t i = 0; i < count;) {
    const int64_t run = std::min(count - i, scales.run_at(first + i));  // of one nested scale
    const int64_t end = i + run;
    for (; i + lanes() <= end; i += lanes()) put(scales.vector_at(first + i), i, lanes());
    for (; i < end; ++i) put(constant(scales[first + i]), i, 1);
  }
  return normal;
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
namespace {
HWY_EXPORT(decode_four_bit);
HWY_EXPORT(four_bit_scales);
}  // namespace
void decode_four_bit(const QuantisedWeight& weight, const cpu::MatrixRange& range, DType elements, DType dtype,
                     int64_t stride, void* out) {
  HWY_DYNAMIC_DISPATCH(decode_four_bit)(weight, range, elements, dtype, stride, out);
}
bool four_bit_scales(const QuantisedWeight& weight, int64_t first, int64_t count, float* out) {
  return HWY_DYNAMIC_DISPATCH(four_bit_scales)(weight, first, count, out);
}
}  // namespace spillway::ops
#endif
