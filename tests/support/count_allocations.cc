#include "tests/support/count_allocations.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

#if defined(__GLIBC__) && !SPILLWAY_REPLACES_MALLOC
#define SPILLWAY_INTERPOSES 1
#else
#define SPILLWAY_INTERPOSES 0
#endif

namespace {

std::atomic<bool> counting{false};
std::atomic<int64_t> allocations{0};

std::atomic<int64_t> until_failure{0};  // 0: none fails

[[maybe_unused]] void note() {
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1, std::memory_order_relaxed);
}

// Returns true if this is the allocation that must fail.
[[maybe_unused]] bool fails() {
  note();
  if (until_failure.load(std::memory_order_relaxed) <= 0) return false;
  if (until_failure.fetch_sub(1, std::memory_order_relaxed) != 1) return false;
  errno = ENOMEM;
  return true;
}

}  // namespace

#if SPILLWAY_INTERPOSES
// glibc's own functions under their other names; defining the public ones here replaces them in the whole process, the
// C and C++ libraries included. free() stays glibc's: all memory still comes from there.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void* __libc_valloc(size_t bytes);

void* malloc(size_t bytes) {
  if (fails()) return nullptr;
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  if (fails()) return nullptr;
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, size_t bytes) {
  if (fails()) return nullptr;
  return __libc_realloc(memory, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  if (fails()) return nullptr;
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  if (fails()) return nullptr;
  return __libc_memalign(alignment, bytes);
}
void* valloc(size_t bytes) {
  if (fails()) return nullptr;
  return __libc_valloc(bytes);
}
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  if (fails()) return ENOMEM;
  if (alignment < sizeof(void*) || (alignment & (alignment - 1)) != 0) return EINVAL;
  const int before = errno;
  void* const result = __libc_memalign(alignment, bytes);
  errno = before;  // the result says it, errno stays
  if (!result) return ENOMEM;
  *memory = result;
  return 0;
}
void* mmap(void* address, size_t bytes, int protection, int flags, int file, off_t offset) {
  note();
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, bytes, protection, flags, file, offset));
}
void* mmap64(void* address, size_t bytes, int protection, int flags, int file, off64_t offset) {
  note();
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, bytes, protection, flags, file, offset));
}
}
#endif

namespace spillway::testing {

AllocationCounter::AllocationCounter() {
  allocations = 0;
  counting = true;
}
AllocationCounter::~AllocationCounter() { counting = false; }

int64_t AllocationCounter::count() const { return allocations; }
bool AllocationCounter::works() { return SPILLWAY_INTERPOSES != 0; }

AllocationFailure::AllocationFailure(int64_t nth) { until_failure = nth; }
AllocationFailure::~AllocationFailure() { until_failure = 0; }

bool AllocationFailure::happened() const { return until_failure <= 0; }

}  // namespace spillway::testing
