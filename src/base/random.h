// Counter-based random numbers: the n-th number of a stream is a pure function of (seed, stream, n), so that
// recomputation, threads and resuming give the same bits. Philox4x32-10 (Salmon et al., SC 2011).
#pragma once

#include <array>
#include <cstdint>

namespace spillway {

// Returns four 32-bit numbers of stream `stream` at position `counter`.
[[nodiscard]] constexpr std::array<uint32_t, 4> philox(uint64_t seed, uint64_t stream, uint64_t counter) {
  uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  std::array<uint32_t, 4> x = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
                               static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * x[0], b = uint64_t{0xCD9E8D57} * x[2];
    x = {static_cast<uint32_t>(b >> 32) ^ x[1] ^ key0, static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ x[3] ^ key1, static_cast<uint32_t>(a)};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return x;
}

// Returns a number that is uniform in [0, 1), of 24 bits.
[[nodiscard]] inline float uniform_float(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

// A sequential view of one stream, for host code (shuffles, sampling). Copying it copies its position.
class RandomStream {
 public:
  RandomStream(uint64_t seed, uint64_t stream, uint64_t position = 0)
      : seed_(seed), stream_(stream), position_(position) {}

  [[nodiscard]] uint32_t next() {
    const auto block = philox(seed_, stream_, position_ / 4);
    return block[position_++ % 4];
  }
  // Returns a number that is uniform in [0, bound), without bias. REQUIRES: bound > 0.
  [[nodiscard]] uint32_t below(uint32_t bound) {
    const uint32_t threshold = (0u - bound) % bound;
    for (;;) {
      const uint64_t product = uint64_t{next()} * bound;
      if (static_cast<uint32_t>(product) >= threshold) return static_cast<uint32_t>(product >> 32);
    }
  }
  [[nodiscard]] float uniform() { return uniform_float(next()); }
  // Returns a number from a normal distribution around 0. Takes two numbers of the stream.
  [[nodiscard]] float normal(double deviation = 1);
  [[nodiscard]] uint64_t position() const { return position_; }

 private:
  uint64_t seed_, stream_, position_;
};

}  // namespace spillway
