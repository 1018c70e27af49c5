#include "tests/support/count_allocations.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

namespace {

std::atomic<bool> counting{false};
std::atomic<int64_t> allocations{0};

[[maybe_unused]] void note() {
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kInterposes = false;
#else
constexpr bool kInterposes = true;

// glibc's own functions under their other names; defining the public ones here replaces them in the whole process.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) {
  note();
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  note();
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, size_t bytes) {
  note();
  return __libc_realloc(memory, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  note();
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  note();
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  note();
  *memory = __libc_memalign(alignment, bytes);
  return *memory ? 0 : ENOMEM;
}
void* mmap(void* address, size_t bytes, int protection, int flags, int file, off_t offset) {
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
bool AllocationCounter::works() { return kInterposes; }

}  // namespace spillway::testing
