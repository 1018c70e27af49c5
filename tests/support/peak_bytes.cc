#include "tests/support/peak_bytes.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<bool> counting{false};
std::atomic<int64_t> live{0}, peak{0};

void* noted(void* memory) {
  if (!memory || !counting.load(std::memory_order_relaxed)) return memory;
  const auto bytes = static_cast<int64_t>(::malloc_usable_size(memory));
  const int64_t now = live.fetch_add(bytes) + bytes;
  int64_t before = peak.load();
  while (before < now && !peak.compare_exchange_weak(before, now)) {
  }
  return memory;
}

void* noted_or_throw(void* memory) {
  if (!memory) throw std::bad_alloc();
  return noted(memory);
}

void release(void* memory) {
  if (counting.load(std::memory_order_relaxed)) live -= static_cast<int64_t>(::malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

// A sanitizer gives the forms that are not replaced here memory of its own, which free() may not have.
void* operator new(size_t bytes) { return noted_or_throw(std::malloc(bytes)); }
void* operator new[](size_t bytes) { return noted_or_throw(std::malloc(bytes)); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  const auto align = static_cast<size_t>(alignment);
  return noted_or_throw(std::aligned_alloc(align, (bytes + align - 1) / align * align));
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return noted(std::malloc(bytes)); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return noted(std::malloc(bytes)); }
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, size_t) noexcept { release(memory); }
void operator delete[](void* memory, size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { release(memory); }

namespace spillway::testing {

PeakBytes::PeakBytes() {
  live = peak = 0;
  counting = true;
}
PeakBytes::~PeakBytes() { counting = false; }

int64_t PeakBytes::bytes() const { return peak; }

}  // namespace spillway::testing
