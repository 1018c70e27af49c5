// Computes the checksum of bytes that come piece by piece: 64 bits of XXH3 (xxHash by Y. Collet). It detects damage,
// not attacks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace spillway {

class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(Checksum&&) noexcept;

  void add(std::span<const std::byte> bytes);
  // Returns the checksum of the bytes added so far.
  [[nodiscard]] uint64_t value() const;
  // Returns it as 16 hexadecimal digits.
  [[nodiscard]] std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// 128 bits of XXH3: no two of 2^40 texts have the same by chance.
struct Hash128 {
  uint64_t low = 0, high = 0;
  bool operator==(const Hash128&) const = default;
};
[[nodiscard]] Hash128 hash_128(std::span<const std::byte> bytes);

[[nodiscard]] std::string checksum_text(std::span<const std::byte> bytes);

}  // namespace spillway
