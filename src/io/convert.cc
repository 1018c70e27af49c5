#include "io/convert.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/sizes.h"
#include "base/wide_vectors.h"

namespace spillway {
namespace {

template <typename To>
To from_float(float value) {
  if constexpr (std::is_same_v<To, float>) return value;
  if constexpr (std::is_same_v<To, bf16>) return to_bf16(value);
  if constexpr (std::is_same_v<To, f16>) return to_f16(value);
}

template <typename From, typename To>
void convert(const void* from, void* to, int64_t elems) {
  const From* source = static_cast<const From*>(from);
  To* target = static_cast<To*>(to);
  with_wide_vectors([=]() SPILLWAY_INLINE {
    for (int64_t i = 0; i < elems; ++i) target[i] = from_float<To>(to_float(source[i]));
  });
}

template <typename From>
void convert_from(const void* from, void* to, DType to_dtype, int64_t elems) {
  switch (to_dtype) {
    case DType::kF32:
      return convert<From, float>(from, to, elems);
    case DType::kBF16:
      return convert<From, bf16>(from, to, elems);
    case DType::kF16:
      return convert<From, f16>(from, to, elems);
    default:
      SPILLWAY_CHECK(false, "{} is not floating", name_of(to_dtype));
  }
}

// Finds a nonfinite value, whose exponent bits are all set.
template <typename Bits>
int64_t find_exponent(const void* values, Bits mask, int64_t elems) {
  const Bits* bits = static_cast<const Bits*>(values);
  constexpr int64_t kBlock = 4096;
  for (int64_t begin = 0; begin < elems; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, elems);
    const Bits found = with_wide_vectors([=]() SPILLWAY_INLINE {
      Bits any = 0;  // without an early exit, so that the loop is vectorised
      for (int64_t i = begin; i < end; ++i) any |= static_cast<Bits>((bits[i] & mask) == mask);
      return any;
    });
    if (found == 0) continue;
    for (int64_t i = begin; i < end; ++i) {
      if ((bits[i] & mask) == mask) return i;
    }
  }
  return -1;
}

// The elements of a piece that are converted at a time: so many fit a core's cache in both dtypes.
constexpr int64_t kConvertedElems = int64_t{1} << 14;

// Returns a flat part of a piece.
TensorView part_of(const TensorView& piece, int64_t first, int64_t count) {
  return {piece.as<std::byte>() + first * size_of(piece.dtype), piece.dtype, {count}};
}

// Calls use(part of the piece, index of its first element).
template <typename Use>
void for_each_part(const TensorView& piece, const Use& use) {
  for (int64_t first = 0; first < piece.elems(); first += kConvertedElems)
    use(part_of(piece, first, std::min(kConvertedElems, piece.elems() - first)), first);
}

}  // namespace

void convert_floats(const void* from, DType from_dtype, void* to, DType to_dtype, int64_t elems) {
  if (from_dtype == to_dtype) {
    std::memmove(to, from, static_cast<size_t>(elems * size_of(to_dtype)));
    return;
  }
  switch (from_dtype) {
    case DType::kF32:
      return convert_from<float>(from, to, to_dtype, elems);
    case DType::kBF16:
      return convert_from<bf16>(from, to, to_dtype, elems);
    case DType::kF16:
      return convert_from<f16>(from, to, to_dtype, elems);
    default:
      SPILLWAY_CHECK(false, "{} is not floating", name_of(from_dtype));
  }
}

void round_to(DType dtype, std::span<float> values) {
  if (dtype == DType::kF32) return;
  const TensorView all{values.data(), DType::kF32, {std::ssize(values)}};
  for_each_rounded(all, 0, dtype, [&](const TensorView& rounded, int64_t first) {
    convert_floats(rounded.data, dtype, values.data() + first, DType::kF32, rounded.elems());
  });
}

void for_each_f32(const TensorView& piece, int64_t first_elem, const FloatVisitor& use) {
  auto values = make_vector<float>(std::min(kConvertedElems, piece.elems()));
  for_each_part(piece, [&](const TensorView& part, int64_t first) {
    convert_floats(part.data, part.dtype, values.data(), DType::kF32, part.elems());
    use(first_of(values, part.elems()), first_elem + first);
  });
}

void fill_from_f32(const TensorView& piece, int64_t first_elem, const FloatVisitor& fill) {
  auto values = make_vector<float>(std::min(kConvertedElems, piece.elems()));
  for_each_part(piece, [&](const TensorView& part, int64_t first) {
    fill(first_of(values, part.elems()), first_elem + first);
    convert_floats(values.data(), DType::kF32, part.data, part.dtype, part.elems());
  });
}

void for_each_rounded(const TensorView& piece, int64_t first_elem, DType dtype,
                      const std::function<void(const TensorView& rounded, int64_t first_elem)>& use) {
  auto rounded = make_vector<std::byte>(std::min(kConvertedElems, piece.elems()) * size_of(dtype));
  for_each_part(piece, [&](const TensorView& part, int64_t first) {
    convert_floats(part.data, part.dtype, rounded.data(), dtype, part.elems());
    use({rounded.data(), dtype, {part.elems()}}, first_elem + first);
  });
}

int64_t find_nonfinite(const void* values, DType dtype, int64_t elems) {
  switch (dtype) {
    case DType::kF32:
      return find_exponent<uint32_t>(values, 0x7F800000, elems);
    case DType::kBF16:
      return find_exponent<uint16_t>(values, 0x7F80, elems);
    case DType::kF16:
      return find_exponent<uint16_t>(values, 0x7C00, elems);
    default:
      SPILLWAY_CHECK(false, "{} is not floating", name_of(dtype));
  }
}

}  // namespace spillway
