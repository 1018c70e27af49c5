#include "runtime/small_numbers.h"

#include <cstring>

namespace spillway {

void fill_with_small_numbers(std::byte* to, int64_t bytes, ThreadPool& pool) {
  pool.parallel_for(bytes / 8, 1 << 16, [&](int64_t begin, int64_t end, int) {
    uint64_t state = static_cast<uint64_t>(begin) * 0x9E3779B97F4A7C15u + 88172645463325252u;
    for (int64_t i = begin; i < end; ++i) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      // Four halves, each with a sign, a mantissa and an exponent for 2^-7 to 2^-4 (bf16 and f32) or about 1 (f16).
      const uint64_t word = (state & 0x80FF80FF80FF80FFu) | 0x3C003C003C003C00u;
      std::memcpy(to + 8 * i, &word, 8);
    }
  });
}

}  // namespace spillway
