// Memory of exactly the bytes that an operation may use.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace spillway::ops::testing {

inline constexpr size_t kGuardBytes = 64;
inline constexpr std::byte kGuard{0xA5};

// A buffer of exact bytes, 64-byte aligned, between two guards; filled with 0xFF, which is NaN in every float type.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(int64_t bytes)
      : storage_(static_cast<size_t>(bytes) + 3 * kGuardBytes, kGuard), bytes_(bytes) {
    const auto address = reinterpret_cast<uintptr_t>(storage_.data()) + kGuardBytes;
    offset_ = kGuardBytes + (64 - address % 64) % 64;
    std::fill_n(data(), bytes_, std::byte{0xFF});
  }
  GuardedBuffer(GuardedBuffer&&) = default;

  [[nodiscard]] std::byte* data() { return storage_.data() + offset_; }
  [[nodiscard]] const std::byte* data() const { return storage_.data() + offset_; }
  // Returns a copy, as numbers: the library compares these by memcmp, and elements of std::byte one by one.
  [[nodiscard]] std::vector<uint8_t> content() const {
    const auto* bytes = reinterpret_cast<const uint8_t*>(data());
    return {bytes, bytes + bytes_};
  }
  [[nodiscard]] bool guards_hold() const {
    const auto is_guard = [](std::byte b) { return b == kGuard; };
    return std::all_of(storage_.data(), data(), is_guard) &&
           std::all_of(data() + bytes_, storage_.data() + storage_.size(), is_guard);
  }

 private:
  std::vector<std::byte> storage_;
  size_t offset_;
  int64_t bytes_;
};

}  // namespace spillway::ops::testing
