// Counts every malloc, calloc, realloc, aligned allocation and mmap of this process while one lives, or makes one of
// them fail.
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

// While one lives, the nth allocation from now on fails, and no other.
class AllocationFailure {
 public:
  explicit AllocationFailure(int64_t nth);
  ~AllocationFailure();
  AllocationFailure(AllocationFailure&&) = delete;

  // Returns true if there was an nth allocation.
  [[nodiscard]] bool happened() const;
};

}  // namespace spillway::testing
