#include "io/gguf_quantize.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "base/wide_vectors.h"
#include "io/convert.h"
#include "io/gguf_block_encoders.h"
#include "tensor/dtype.h"

namespace spillway {
namespace {

using Byte = uint8_t;

// Rounds halves away from zero, as std::round, which compilers do not vectorise: what is added to a half makes it a
// whole one, and what is added to the number below it does not.
SPILLWAY_INLINE inline int8_t round_to_i8(float value) {
  constexpr float kBelowHalf = 0x1.fffffep-2f;
  const uint32_t sign = std::bit_cast<uint32_t>(value) & 0x80000000;
  return static_cast<int8_t>(
      static_cast<int32_t>(value + std::bit_cast<float>(sign | std::bit_cast<uint32_t>(kBelowHalf))));
}

// The layout is [f16 scale][32 signed bytes]; the largest magnitude becomes 127.
void encode_q8_0(const float* values, Byte* block) {
  constexpr int kElems = 32;
  const float largest = with_wide_vectors([values]() SPILLWAY_INLINE {
    uint32_t bits = 0;  // of finite values, which their magnitudes' bits order as well
    for (int i = 0; i < kElems; ++i) bits = std::max(bits, std::bit_cast<uint32_t>(values[i]) & 0x7FFFFFFF);
    return std::bit_cast<float>(bits);
  });
  const float scale = largest / 127;
  const float inverse = scale == 0 ? 0 : 1 / scale;
  gguf::put_half(scale, block);
  int8_t codes[kElems];
  int8_t* const to = codes;
  with_wide_vectors([=]() SPILLWAY_INLINE {
    for (int i = 0; i < kElems; ++i) to[i] = round_to_i8(values[i] * inverse);
  });
  std::memcpy(block + 2, codes, kElems);
}

using Encoder = void (*)(const float* values, Byte* block);

// Returns null for a type that is no block encoding.
Encoder encoder_of(GgufType type) {
  switch (type) {
    case GgufType::kQ8_0:
      return encode_q8_0;
    case GgufType::kQ5_0:
      return gguf::encode_q5_0;
    case GgufType::kQ5_1:
      return gguf::encode_q5_1;
    case GgufType::kQ4_K:
      return gguf::encode_q4_k;
    case GgufType::kQ5_K:
      return gguf::encode_q5_k;
    case GgufType::kQ6_K:
      return gguf::encode_q6_k;
    default:
      return nullptr;
  }
}

DType dtype_of(GgufType type) {
  switch (type) {
    case GgufType::kF32:
      return DType::kF32;
    case GgufType::kF16:
      return DType::kF16;
    case GgufType::kBF16:
      return DType::kBF16;
    default:
      report_bug(__FILE__, __LINE__, "type", "no floating encoding");
  }
}

}  // namespace

bool can_quantize(GgufType type) {
  return type == GgufType::kF32 || type == GgufType::kF16 || type == GgufType::kBF16 || encoder_of(type) != nullptr;
}

void quantize(GgufType type, std::span<const float> values, std::span<std::byte> blocks, ThreadPool* pool) {
  const GgufLayout layout = layout_of(type);
  const auto elems = static_cast<int64_t>(values.size());
  SPILLWAY_CHECK(elems % layout.block_elems == 0 &&
                     static_cast<int64_t>(blocks.size()) == elems / layout.block_elems * layout.block_bytes,
                 "{} values in {} bytes of {}", elems, blocks.size(), layout.name);
  const Encoder encode = encoder_of(type);
  if (encode == nullptr) return convert_floats(values.data(), DType::kF32, blocks.data(), dtype_of(type), elems);
  auto* const first = reinterpret_cast<Byte*>(blocks.data());
  const auto encode_blocks = [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i)
      encode(values.data() + i * layout.block_elems, first + i * layout.block_bytes);
  };
  const int64_t count = elems / layout.block_elems;
  constexpr int64_t kGrain = 64;  // blocks
  if (pool != nullptr) {
    pool->parallel_for(count, kGrain, encode_blocks);
  } else {
    encode_blocks(0, count, 0);
  }
}

}  // namespace spillway
