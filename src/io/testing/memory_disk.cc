#include "io/testing/memory_disk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/index.h"
#include "base/sizes.h"

namespace spillway::testing {

class MemoryDisk::Backend final : public DiskBackend {
 public:
  Backend(MemoryDisk& disk, const DiskBackendSetup& setup) {
    for (const int fd : setup.files) files_.push_back({fd, disk.contents_of(fd)});
    reserve(finished_, setup.depth);
  }

  [[nodiscard]] std::string_view name() const override { return "memory"; }

  void start(int32_t slot, const DiskBlock& block) override {
    const File& file = nth(files_, block.file);
    const auto bytes = static_cast<size_t>(block.bytes);
    int64_t result = block.bytes;
    if (!file.contents) {
      result = pread(file.fd, block.memory, bytes, block.offset);
      if (result < 0) result = -errno;
    } else if (block.direction == DiskDirection::kRead) {
      std::memcpy(block.memory, file.contents + block.offset, bytes);
    } else {
      std::memcpy(file.contents + block.offset, block.memory, bytes);
    }
    finished_.push_back({slot, result});
  }

  [[nodiscard]] std::optional<Completion> finish(Wait) override {
    if (finished_.empty()) return std::nullopt;
    const Completion completion = finished_.back();
    finished_.pop_back();
    return completion;
  }

 private:
  struct File {
    int fd = -1;
    std::byte* contents = nullptr;
  };
  std::vector<File> files_;
  std::vector<Completion> finished_;
};

MakeDiskBackend MemoryDisk::backend() {
  return [this](const DiskBackendSetup& setup) { return std::make_unique<Backend>(*this, setup); };
}

std::byte* MemoryDisk::contents_of(int fd) {
  if ((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY) return nullptr;
  struct stat status;
  if (fstat(fd, &status) != 0) return nullptr;
  const std::scoped_lock lock(mutex_);
  std::vector<std::byte>& contents = files_[fd];
  resize(contents, status.st_size);
  return contents.data();
}

}  // namespace spillway::testing
