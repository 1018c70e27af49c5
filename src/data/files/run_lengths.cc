#include "data/files/run_lengths.h"

#include <algorithm>

#include "base/error.h"
#include "base/math.h"
#include "base/sizes.h"

namespace spillway::data {

std::vector<int32_t> unpack_run_lengths(std::span<const std::byte> bytes, int width, int64_t count,
                                        std::string_view where) {
  constexpr int kByteBits = 8;
  size_t at = 0;
  const auto take = [&] {
    if (at == bytes.size())
      throw input_error(where, "expected {} levels or indices in a page, got fewer; make or download the file again",
                        count);
    return static_cast<uint64_t>(bytes[at++]);
  };
  std::vector<int32_t> numbers;
  while (std::ssize(numbers) < count) {
    uint64_t head = 0;
    for (int shift = 0; shift < 35; shift += 7) {
      const uint64_t byte = take();
      head |= (byte & 0x7F) << shift;
      if (byte < 0x80) break;
    }
    const int64_t left = count - std::ssize(numbers);
    if ((head & 1) == 0) {  // one number, many times
      uint64_t number = 0;
      for (int i = 0; i < div_ceil(width, kByteBits); ++i) number |= take() << (kByteBits * i);
      const auto times = std::min<int64_t>(left, static_cast<int64_t>(head >> 1));
      append_repeated(numbers, times, static_cast<int32_t>(number));
      continue;
    }
    // Groups of eight numbers, the lowest bits first.
    const auto packed = std::min<int64_t>(left, static_cast<int64_t>(head >> 1) * kByteBits);
    uint64_t bits = 0;
    int held = 0;
    for (int64_t i = 0; i < packed; ++i) {
      for (; held < width; held += kByteBits) bits |= take() << held;
      numbers.push_back(static_cast<int32_t>(bits & ((uint64_t{1} << width) - 1)));
      bits >>= width;
      held -= width;
    }
  }
  return numbers;
}

}  // namespace spillway::data
