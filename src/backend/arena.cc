#include "backend/arena.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "backend/host_memory.h"
#include "base/bytes.h"
#include "base/error.h"

namespace spillway {
namespace {

constexpr int64_t kPageBytes = 4096;

}  // namespace

Arena::Arena(std::string_view name, int64_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  const int64_t available = available_memory_bytes();
  if (available > 0 && bytes > available) {
    throw machine_error(name, "expected {} of free memory for the plan, got {}; lower memory.{}", format_bytes(bytes),
                        format_bytes(available), name);
  }
  void* memory = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw machine_error(name, "expected {} of memory for the plan, got '{}'; lower memory.{}", format_bytes(bytes),
                        std::strerror(errno), name);
  }
  base_ = static_cast<std::byte*>(memory);
  // Fewer TLB misses in the matrix products; where huge pages are off this changes nothing.
  madvise(memory, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  for (int64_t offset = 0; offset < bytes; offset += kPageBytes) base_[offset] = std::byte{0};
}

Arena::~Arena() {
  if (base_) munmap(base_, static_cast<size_t>(bytes_));
}

Arena::Arena(Arena&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

}  // namespace spillway
