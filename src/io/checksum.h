// The checksum of bytes that come piece by piece: 64 bits of XXH3 (xxHash by Y. Collet). It tells damage, not attacks.
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
  // Of what was added so far.
  [[nodiscard]] uint64_t value() const;
  // The same as 16 hexadecimal digits.
  [[nodiscard]] std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

[[nodiscard]] std::string checksum_text(std::span<const std::byte> bytes);

}  // namespace spillway
