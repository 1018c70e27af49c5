// Counts every malloc, calloc, realloc, aligned allocation and mmap of this process while one lives.
#pragma once

#include <cstdint>

namespace spillway::testing {

class AllocationCounter {
 public:
  AllocationCounter();
  ~AllocationCounter();
  AllocationCounter(AllocationCounter&&) = delete;

  // Since construction, of all threads.
  [[nodiscard]] int64_t count() const;
  // False where nothing is counted: under sanitizers, whose allocator cannot be replaced, and without glibc.
  [[nodiscard]] static bool works();
};

}  // namespace spillway::testing
