// The memory of one tier: a single anonymous mapping of exactly the planned size, made once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace spillway {

class Arena {
 public:
  // Throws MachineError with the size if the system refuses it. Touches the pages, in the order of their addresses, so
  // that a machine that is too small says so before the first step. `name` appears in errors.
  Arena(std::string_view name, int64_t bytes);
  ~Arena();
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&&) = delete;

  [[nodiscard]] std::byte* at(int64_t offset) const { return base_ + offset; }
  [[nodiscard]] int64_t bytes() const { return bytes_; }

 private:
  std::byte* base_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace spillway
