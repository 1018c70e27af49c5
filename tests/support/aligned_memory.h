// Zeroed memory that begins at a page, as direct I/O wants it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>

namespace spillway::testing {

class AlignedMemory {
 public:
  // REQUIRES: `bytes` is a multiple of 4096.
  explicit AlignedMemory(int64_t bytes)
      : bytes_(bytes), memory_(static_cast<std::byte*>(std::aligned_alloc(4096, static_cast<size_t>(bytes)))) {
    if (!memory_) throw std::bad_alloc();
    std::memset(memory_.get(), 0, static_cast<size_t>(bytes));
  }

  [[nodiscard]] std::byte* data() { return memory_.get(); }
  [[nodiscard]] int64_t bytes() const { return bytes_; }
  [[nodiscard]] std::span<std::byte> span() { return span(0, bytes_); }
  [[nodiscard]] std::span<std::byte> span(int64_t begin, int64_t bytes) {
    return {memory_.get() + begin, static_cast<size_t>(bytes)};
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  int64_t bytes_;
  std::unique_ptr<std::byte, Free> memory_;
};

}  // namespace spillway::testing
