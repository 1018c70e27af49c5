#include "tensor/codebook.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/index.h"

using namespace spillway;

namespace {

// Computes SHA-256 (FIPS 180-4).
std::string sha256(std::string message) {
  constexpr std::array<uint32_t, 64> kRound = {
      0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
      0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
      0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
      0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
      0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
      0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
      0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
      0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
  std::array<uint32_t, 8> state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const uint64_t bits = message.size() * 8;
  message += '\x80';
  while (message.size() % 64 != 56) message += '\0';
  for (int shift = 56; shift >= 0; shift -= 8) message += static_cast<char>(bits >> shift);
  for (size_t at = 0; at < message.size(); at += 64) {
    std::array<uint32_t, 64> w{};
    for (size_t i = 0; i < 64; ++i) {
      w[i / 4] = w[i / 4] << 8 | static_cast<uint8_t>(message[at + i]);
    }
    for (size_t i = 16; i < 64; ++i) {
      const uint32_t a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3)) + w[i - 7] +
             (std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10));
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (size_t i = 0; i < 64; ++i) {
      const uint32_t t1 =
          h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
      const uint32_t t2 = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    const std::array<uint32_t, 8> round = {a, b, c, d, e, f, g, h};
    for (size_t i = 0; i < 8; ++i) state[i] += round[i];
  }
  std::string hex;
  for (const uint32_t word : state) {
    for (int shift = 28; shift >= 0; shift -= 4) hex += "0123456789abcdef"[word >> shift & 15];
  }
  return hex;
}

std::string bytes_of(const std::array<float, 256>& map) {
  std::string bytes(sizeof map, '\0');
  std::memcpy(bytes.data(), map.data(), sizeof map);
  return bytes;
}

}  // namespace

TEST_CASE("the dynamic maps are bitsandbytes' to the last bit") {
  REQUIRE(sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  // The sums are those of create_dynamic_map(signed), as little-endian f32.
  CHECK(sha256(bytes_of(kDynamicSigned)) == "e732639a65f497b4ad684bb166a4467708255edd5207757de8b8f0c7e1fda89c");
  CHECK(sha256(bytes_of(kDynamicUnsigned)) == "305f002cc11278fb769d13b25b9fd0c7c83c8402c40a878fe086f4039fde6398");
  CHECK(kDynamicSigned[127] == 0);
}

TEST_CASE("codes of 4 bits have the values that bitsandbytes names") {
  CHECK(std::is_sorted(kNf4.begin(), kNf4.end()));
  CHECK(kNf4[kNf4Zero] == 0);
  const std::array<float, 8> twelfths = {0, 0.0625F, 8, 12, 4, 6, 2, 3};
  for (size_t code = 0; code < 8; ++code) {
    CHECK(kFp4[code] == twelfths[code] / 12);
    CHECK(kFp4[code + 8] == -kFp4[code]);
  }
  for (size_t i = 0; i + 1 < kFp4Ascending.size(); ++i) {
    CHECK(kFp4[kFp4Ascending[i]] < kFp4[kFp4Ascending[i + 1]]);
    CHECK(kFp4Midpoints[i] == (kFp4[kFp4Ascending[i]] + kFp4[kFp4Ascending[i + 1]]) / 2);
  }
}

TEST_CASE("a code is that of the nearest value, of two that are equally near the even one") {
  for (const auto* map : {&kDynamicSigned, &kDynamicUnsigned}) {
    const auto between = midpoints(*map);
    CHECK(nearest_code(between.data(), -std::numeric_limits<float>::infinity()) == 0);
    CHECK(nearest_code(between.data(), std::numeric_limits<float>::infinity()) == 255);
    CHECK(nearest_code(between.data(), std::numeric_limits<float>::quiet_NaN()) == 0);
    for (int code = 0; code < 256; ++code) {
      CAPTURE(code);
      CHECK(nearest_code(between.data(), nth(*map, code)) == code);
      if (code == 255) continue;
      const float middle = nth(between, code);
      CHECK(nearest_code(between.data(), std::nextafter(middle, -2.0F)) == code);
      CHECK(nearest_code(between.data(), std::nextafter(middle, 2.0F)) == code + 1);
      CHECK(nearest_code(between.data(), middle) == code + code % 2);
    }
  }
}
