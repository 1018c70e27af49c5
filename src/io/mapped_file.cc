#include "io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "io/file.h"
#include "io/mapping_faults.h"

namespace spillway {

MappedFile::MappedFile(const std::filesystem::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode))
    throw input_error(path.string(), "expected a file, got none that can be read; check the path");
  if (status.st_size == 0) return;
  const auto size = static_cast<size_t>(status.st_size);
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED)
    throw machine_error(path.string(), "expected to map {} bytes, got \"{}\"; free address space", size,
                        std::strerror(errno));
  bytes_ = {static_cast<const std::byte*>(memory), size};
  watch_mapping(bytes_, path);
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  unwatch_mapping(bytes_.data());
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

void MappedFile::forget() const {
  if (!bytes_.empty()) ::madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), MADV_DONTNEED);
}

}  // namespace spillway
