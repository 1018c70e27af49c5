// The frame of an update on the CPU whose moments are codes, for files that Highway compiles once for each instruction
// set (see ops/simd.h). A block's moments lie in the first cache between their update and their encoding.
#if defined(SPILLWAY_OPS_BLOCK_UPDATE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPS_BLOCK_UPDATE_INL_H
#undef SPILLWAY_OPS_BLOCK_UPDATE_INL_H
#else
#define SPILLWAY_OPS_BLOCK_UPDATE_INL_H
#endif

#include <cstring>

#include "base/sizes.h"
#include "ops/optimizers/block_update.h"
#include "ops/optimizers/update-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

using SignedWords = hn::RebindToSigned<Floats>;
using CodeBytes = hn::Rebind<uint8_t, Floats>;
using WordVector = hn::Vec<Words>;

// The codes of a block, a byte each.
struct alignas(64) BlockBytes {
  uint8_t at[kStateBlock + kMaxLanes];
};
// The moments of a block.
struct alignas(64) BlockFloats {
  float at[kStateBlock + kMaxLanes];
};

// True where one or two vectors hold the 16 values of a map, which are looked up in registers then.
constexpr bool kMapsInRegisters = HWY_MAX_BYTES == 32 || HWY_MAX_BYTES == 64;

#if HWY_MAX_BYTES == 32 || HWY_MAX_BYTES == 64
// Returns entry `index` of as many as there are lanes; of larger numbers the lowest bits count.
HWY_INLINE Vector look_up(Vector table, WordVector index) {
  const WordVector entry = hn::And(index, hn::Set(Words(), static_cast<uint32_t>(lanes() - 1)));
  return hn::TableLookupLanes(table, hn::IndicesFromVec(Floats(), hn::BitCast(SignedWords(), entry)));
}

// The values of a map of 16.
#if HWY_MAX_BYTES == 32
class Map16 {
 public:
  explicit Map16(const float* values) : first_(load(values)), last_(load(values + 8)) {}
  HWY_INLINE Vector operator()(WordVector code) const {
    const auto is_last = hn::RebindMask(Floats(), hn::TestBit(code, hn::Set(Words(), 8)));
    return hn::IfThenElse(is_last, look_up(last_, code), look_up(first_, code));
  }

 private:
  Vector first_, last_;
};
#else
class Map16 {
 public:
  explicit Map16(const float* values) : values_(load(values)) {}
  HWY_INLINE Vector operator()(WordVector code) const { return look_up(values_, code); }

 private:
  Vector values_;
};
#endif

// Returns the word of eight codes of 4 bits in which each lane's code is.
HWY_INLINE WordVector words_of_nibbles(const uint8_t* codes) {
  uint32_t word[HWY_MAX_BYTES / 32];
  std::memcpy(word, codes, sizeof(word));
#if HWY_MAX_BYTES == 32
  return hn::Set(Words(), word[0]);
#else
  const hn::Half<Words> half;
  return hn::Combine(Words(), hn::Set(half, word[1]), hn::Set(half, word[0]));
#endif
}

// Does what decode_block does, for a whole block of 4-bit codes.
inline void decode_nibbles(const uint8_t* codes, const float* values, float* to) {
  alignas(64) static constexpr uint32_t kShifts[] = {4, 0, 12, 8, 20, 16, 28, 24, 4, 0, 12, 8, 20, 16, 28, 24};
  const WordVector shifts = hn::Load(Words(), kShifts);
  const Map16 map(values);
  for (int64_t i = 0; i < kStateBlock; i += lanes()) {
    hn::Store(map(hn::Shr(words_of_nibbles(codes + i / 2), shifts)), Floats(), to + i);
  }
}

// Encodes a whole block in 4 bits: looks for the code among the maps' bounds, half of those left at a time.
inline void encode_nibbles(const BlockCodes& codes, float block_divisor, const float* moments, uint8_t* to) {
  const Words words;
  const float* const bounds = encode_table(codes).bounds.data();
  alignas(64) float quarters[kMaxLanes] = {}, eighths[kMaxLanes] = {};
  for (int i = 0; i < 8; ++i) {
    eighths[i] = bounds[2 * i];
    if (i < 4) quarters[i] = bounds[4 * i + 1];
  }
  const Vector divisor = constant(block_divisor), middle = constant(bounds[7]), low = constant(bounds[3]),
               high = constant(bounds[11]), quarter = hn::Load(Floats(), quarters),
               eighth = hn::Load(Floats(), eighths);
  // Returns 2 * code + 1 where x is above the bound, else 2 * code.
  const auto append = [&](WordVector code, Vector x, Vector bound) HWY_ATTR {
    return hn::Sub(hn::Add(code, code), hn::BitCast(words, hn::VecFromMask(Floats(), hn::Gt(x, bound))));
  };
  for (int64_t i = 0; i < kStateBlock; i += lanes()) {
    const Vector x = hn::Div(hn::Load(Floats(), moments + i), divisor);
    const auto above = hn::Gt(x, middle);
    WordVector code = append(hn::Zero(words), x, middle);
    code = append(code, x, hn::IfThenElse(above, high, low));
    code = append(code, x, look_up(quarter, code));
    code = append(code, x, look_up(eighth, code));
    // The first of two neighbours goes to the upper half of their byte.
    const hn::Repartition<uint64_t, Words> pairs;
    const auto pair = hn::BitCast(pairs, code);
    const auto byte = hn::Or(hn::ShiftLeft<4>(pair), hn::ShiftRight<32>(pair));
    const hn::Rebind<uint8_t, decltype(pairs)> bytes;
    hn::StoreU(hn::TruncateTo(bytes, byte), bytes, to + i / 2);
  }
}
#else
inline void decode_nibbles(const uint8_t*, const float*, float*) {}
inline void encode_nibbles(const BlockCodes&, float, const float*, uint8_t*) {}
#endif

#if HWY_MAX_BYTES == 64
// Does what decode_block does, for a whole block of 8-bit codes: the map lies in 16 registers.
inline void decode_bytes(const uint8_t* codes, const float* values, float* to) {
  const Words words;
  Vector map[16];
  for (int i = 0; i < 16; ++i) map[i] = load(values + 16 * i);
  for (int64_t i = 0; i < kStateBlock; i += 16) {
    const WordVector code = hn::PromoteTo(words, hn::LoadU(CodeBytes(), codes + i));
    const auto has = [&](uint32_t bit)
                         HWY_ATTR { return hn::RebindMask(Floats(), hn::TestBit(code, hn::Set(words, bit))); };
    const auto is_32 = has(32), is_64 = has(64);
    const auto of_32 = [&](int first) HWY_ATTR {  // Highway 1.0 has no look-up in two tables
      return Vector{_mm512_permutex2var_ps(map[first].raw, code.raw, map[first + 1].raw)};
    };
    const auto of_64 = [&](int first) HWY_ATTR { return hn::IfThenElse(is_32, of_32(first + 2), of_32(first)); };
    const auto of_128 = [&](int first) HWY_ATTR { return hn::IfThenElse(is_64, of_64(first + 4), of_64(first)); };
    hn::Store(hn::IfThenElse(has(128), of_128(8), of_128(0)), Floats(), to + i);
  }
}
#else
inline void decode_bytes(const uint8_t* codes, const float* values, float* to) {
  for (int64_t i = 0; i < kStateBlock; ++i) to[i] = values[codes[i]];
}
#endif

// Writes the values of `count` codes, with zeros behind up to a whole vector. Loads those of bytes one by one, where
// registers do not hold them: on many CPUs a gather is slower than the loads that it consists of.
inline void decode_block(const uint8_t* codes, int bits, int64_t count, const float* values, float* to) {
  if (bits == 8 && count == kStateBlock) {
    return decode_bytes(codes, values, to);
  } else if (bits == 8) {
    for (int64_t i = 0; i < count; ++i) to[i] = values[codes[i]];
  } else if (kMapsInRegisters && count == kStateBlock) {
    return decode_nibbles(codes, values, to);
  } else {
    for (int64_t i = 0; i < count; i += 2) {
      to[i] = values[codes[i / 2] >> 4];
      to[i + 1] = values[codes[i / 2] & 15];
    }
  }
  std::fill(to + count, to + align_up(count, lanes()), 0.0F);
}

struct Encoder {
  const uint32_t* entries;
  int shift;
  WordVector rest, lowest, cells, complement;
  Vector divisor;

  Encoder(const BlockCodes& codes, float block_divisor) {
    const EncodeTable& table = encode_table(codes);
    const Words words;
    entries = table.entries.data();
    shift = table.shift;
    rest = hn::Set(words, (uint32_t{1} << table.shift) - 1);
    lowest = hn::Set(words, static_cast<uint32_t>(table.lowest));
    cells = hn::Set(words, static_cast<uint32_t>(table.cells));
    complement = hn::Set(words, static_cast<uint32_t>(codes.count() - 1));
    divisor = constant(block_divisor);
  }

  // Returns the codes of moments, in the low byte of each lane.
  template <bool kSigned>
  HWY_INLINE WordVector operator()(Vector moments) const {
    const Words words;
    // -0 becomes 0.
    Vector x = hn::Div(hn::Add(moments, zero()), divisor);
    // NaN gets code 0, and so do numbers that an unsigned map has no code for: whatever a file holds, the table has a
    // cell.
    x = kSigned ? hn::IfThenElse(hn::Eq(x, x), x, constant(-1.0F)) : hn::IfThenElseZero(hn::Gt(x, zero()), x);
    const WordVector bits = hn::BitCast(words, x);
    const WordVector magnitude = kSigned ? hn::And(bits, hn::Set(words, 0x7FFFFFFF)) : bits;
    const WordVector negative =
        kSigned ? hn::BitCast(words, hn::BroadcastSignBit(hn::BitCast(SignedWords(), bits))) : hn::Zero(words);
    WordVector cell = hn::Sub(hn::Max(hn::ShiftRightSame(magnitude, shift), lowest), lowest);
    if constexpr (kSigned) cell = hn::Add(cell, hn::And(negative, cells));
    const WordVector entry = hn::GatherIndex(words, entries, hn::BitCast(SignedWords(), cell));
    const auto is_next = hn::Gt(hn::BitCast(SignedWords(), hn::And(magnitude, rest)),
                                hn::BitCast(SignedWords(), hn::ShiftRight<8>(entry)));
    const WordVector code =
        hn::Sub(hn::And(entry, hn::Set(words, 255)), hn::BitCast(words, hn::VecFromMask(SignedWords(), is_next)));
    return kSigned ? hn::Xor(code, hn::And(negative, complement)) : code;
  }
};

template <bool kSigned>
void encode_all(const Encoder& encoder, const float* moments, int64_t count, uint8_t* codes) {
  for (int64_t i = 0; i < count; i += lanes()) {
    const WordVector code = encoder.template operator()<kSigned>(hn::LoadU(Floats(), moments + i));
    hn::StoreU(hn::TruncateTo(CodeBytes(), code), CodeBytes(), codes + i);
  }
}

// Writes a block's codes and returns its absmax as stored.
inline float encode_block(const BlockCodes& codes, const BlockFloats& moments, float absmax, int64_t count,
                          uint8_t* to) {
  const BlockScale scale = block_scale(absmax, codes.rule);
  if (kMapsInRegisters && codes.bits == 4 && count == kStateBlock) {
    encode_nibbles(codes, scale.divisor, moments.at, to);
    return scale.stored;
  }
  const Encoder encoder(codes, scale.divisor);
  BlockBytes buffer;
  const bool in_place = codes.bits == 8 && count == kStateBlock;
  uint8_t* bytes = in_place ? to : buffer.at;
  if (codes.is_signed) {
    encode_all<true>(encoder, moments.at, count, bytes);
  } else {
    encode_all<false>(encoder, moments.at, count, bytes);
  }
  if (codes.bits == 4) {
    buffer.at[std::min<size_t>(static_cast<size_t>(count), kStateBlock)] = 0;  // behind an odd number of codes
    for (int64_t i = 0; i < count; i += 2) to[i / 2] = static_cast<uint8_t>(buffer.at[i] << 4 | buffer.at[i + 1]);
  } else if (!in_place) {
    copy_memory(to, buffer.at, count);
  }
  return scale.stored;
}

// Returns the largest of magnitudes as integers, in which NaN is the largest.
HWY_INLINE float absmax_of(hn::Vec<SignedWords> magnitudes) {
  const int32_t bits = hn::GetLane(hn::MaxOfLanes(SignedWords(), magnitudes));
  return std::bit_cast<float>(bits > 0x7F800000 ? int32_t{0x7FC00000} : bits);
}

template <typename Formula, typename Gradient>
void update_block(const Formula& formula, Vector clip, const BlockViews<Formula::kStates>& views,
                  const std::array<BlockCodes, Formula::kStates>& codes, const Gradient* gradient, int64_t block) {
  constexpr size_t kStates = Formula::kStates;
  const SignedWords integers;
  const Formula numbers = formula;  // its own, which no store can change
  const int64_t begin = block * kStateBlock, count = std::min(kStateBlock, views.elems() - begin);
  BlockFloats moments[kStates];
  Vector absmax[kStates];
  hn::Vec<SignedWords> largest[kStates];
  for (size_t s = 0; s < kStates; ++s) {
    const uint8_t* const packed = views.codes_in[s] + begin * codes[s].bits / 8;
    decode_block(packed, codes[s].bits, count, codes[s].values, moments[s].at);
    absmax[s] = constant(views.absmax_in[s][block]);
    largest[s] = hn::Zero(integers);
  }
  for (int64_t i = 0; i < count; i += lanes()) {
    const int64_t part = std::min(lanes(), count - i);
    Number state[kStates];
    for (size_t s = 0; s < kStates; ++s) state[s] = hn::Mul(hn::LoadU(Floats(), moments[s].at + i), absmax[s]);
    const Vector g = hn::Mul(load_lanes(gradient + begin + i, part), clip);
    const Vector p = numbers(load_lanes(views.weights.p_in + begin + i, part), g, state).v;
    store_lanes(p, views.weights.p + begin + i, part);
    if (views.weights.copy) store_lanes(p, views.weights.copy + begin + i, part);
    for (size_t s = 0; s < kStates; ++s) {
      Vector moment = state[s].v;
      if (part < lanes()) moment = hn::IfThenElseZero(hn::FirstN(Floats(), static_cast<size_t>(part)), moment);
      largest[s] = hn::Max(largest[s], hn::BitCast(integers, hn::Abs(moment)));
      hn::StoreU(moment, Floats(), moments[s].at + i);
    }
  }
  for (size_t s = 0; s < kStates; ++s) {
    uint8_t* const packed = views.codes[s] + begin * codes[s].bits / 8;
    views.absmax[s][block] = encode_block(codes[s], moments[s], absmax_of(largest[s]), count, packed);
  }
}

// The kernel: does what run_update does, with moments in codes, of which the formula gets the values.
template <typename Formula>
void run_block_update(const KernelArgs& args, const std::array<BlockCodes, Formula::kStates>& codes) {
  const auto formula = formula_of<Formula>(args);
  const BlockViews<Formula::kStates> views(args);
  const ElementRange& slice = views.weights.slice;
  copy_other_rows(args.inputs[update_input::kWeight], args.outputs[0], slice, *args.threads);
  const TensorView &clip_view = args.inputs[update_input::kClip], &gradients = args.inputs[update_input::kGradient];
  const Vector clip = constant(clip_view.data ? *clip_view.as<float>() : 1);
  with_real(gradients.dtype, [&]<typename T>(T*) {
    const T* gradient = gradients.as<T>() + slice.begin;
    args.threads->parallel_for(views.blocks(), kElementGrain / kStateBlock,
                               [&](int64_t begin, int64_t end, int) HWY_ATTR {
                                 for (int64_t block = begin; block < end; ++block)
                                   update_block(formula, clip, views, codes, gradient, block);
                               });
  });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
