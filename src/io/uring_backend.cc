#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>

#include "base/bytes.h"
#include "base/error.h"
#include "base/index.h"
#include "base/log.h"
#include "io/disk_backend.h"
#include "io/ring_backend.h"

#ifndef SPILLWAY_NO_URING
#include <liburing.h>
#endif

namespace spillway {
namespace {

#ifdef SPILLWAY_NO_URING
constexpr bool kHasUring = false;
#else
constexpr bool kHasUring = true;
#endif

// Logs a line that is true of the whole process once, although each lane has a queue.
void say_once(std::atomic<bool>& said, std::string_view text) {
  if (!said.exchange(true)) log_line(text);
}

#ifndef SPILLWAY_NO_URING
// The most bytes that the kernel registers as one buffer.
constexpr int64_t kMaxBufferBytes = kGiB;

class Uring final : public SubmissionRing {
 public:
  Uring(const io_uring& ring, const DiskBackendSetup& setup) : ring_(ring), files_(setup.files) {
    has_files_ =
        !files_.empty() && io_uring_register_files(&ring_, files_.data(), static_cast<unsigned>(files_.size())) == 0;
    register_memory(setup.memory);
  }
  ~Uring() override { io_uring_queue_exit(&ring_); }
  Uring(Uring&&) = delete;

  [[nodiscard]] std::string_view name() const override { return "io_uring"; }

  void push(int32_t slot, const DiskBlock& block) override {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    SPILLWAY_CHECK(entry, "more blocks than the depth");
    const int fd = has_files_ ? block.file : nth(files_, block.file);
    const unsigned bytes = static_cast<unsigned>(block.bytes);
    const uint64_t offset = static_cast<uint64_t>(block.offset);
    const int buffer = buffer_of(block);
    if (block.direction == DiskDirection::kRead) {
      if (buffer >= 0) io_uring_prep_read_fixed(entry, fd, block.memory, bytes, offset, buffer);
      if (buffer < 0) io_uring_prep_read(entry, fd, block.memory, bytes, offset);
    } else {
      if (buffer >= 0) io_uring_prep_write_fixed(entry, fd, block.memory, bytes, offset, buffer);
      if (buffer < 0) io_uring_prep_write(entry, fd, block.memory, bytes, offset);
    }
    if (has_files_) entry->flags |= IOSQE_FIXED_FILE;
    io_uring_sqe_set_data64(entry, static_cast<uint64_t>(slot));
  }

  int enter(bool wait) override { return wait ? io_uring_submit_and_wait(&ring_, 1) : io_uring_submit(&ring_); }

  std::optional<DiskBackend::Completion> peek() override {
    io_uring_cqe* entry = nullptr;
    if (io_uring_peek_cqe(&ring_, &entry) != 0) return std::nullopt;
    const DiskBackend::Completion completion{static_cast<int32_t>(io_uring_cqe_get_data64(entry)), entry->res};
    io_uring_cqe_seen(&ring_, entry);
    return completion;
  }

 private:
  void register_memory(const std::vector<std::span<std::byte>>& regions) {
    for (const std::span<std::byte> region : regions) {
      for (int64_t begin = 0; begin < std::ssize(region); begin += kMaxBufferBytes) {
        const int64_t bytes = std::min(kMaxBufferBytes, std::ssize(region) - begin);
        buffers_.push_back({region.data() + begin, static_cast<size_t>(bytes)});
      }
    }
    if (buffers_.empty()) return;
    const int error = -io_uring_register_buffers(&ring_, buffers_.data(), static_cast<unsigned>(buffers_.size()));
    if (error == 0) return;
    buffers_.clear();
    static std::atomic<bool> said = false;
    say_once(said,
             fmt::format("the disk tier's memory is not registered with io_uring ({}): a little slower; ulimit -l "
                         "unlimited lets it be",
                         std::system_category().message(error)));
  }

  // Returns -1 if the block's memory is not within one registered buffer.
  [[nodiscard]] int buffer_of(const DiskBlock& block) const {
    for (size_t i = 0; i < buffers_.size(); ++i) {
      const std::byte* base = static_cast<const std::byte*>(buffers_[i].iov_base);
      if (block.memory >= base && block.memory + block.bytes <= base + buffers_[i].iov_len) return static_cast<int>(i);
    }
    return -1;
  }

  io_uring ring_;
  std::vector<int> files_;
  bool has_files_ = false;
  std::vector<iovec> buffers_;
};
#endif

}  // namespace

#ifdef SPILLWAY_NO_URING
std::unique_ptr<DiskBackend> make_uring_backend(const DiskBackendSetup& /*setup*/) {
  errno = ENOSYS;
  return nullptr;
}
#else
std::unique_ptr<DiskBackend> make_uring_backend(const DiskBackendSetup& setup) {
  io_uring ring{};
  const int error = -io_uring_queue_init(static_cast<unsigned>(setup.depth), &ring, 0);
  if (error == 0) return make_ring_backend(std::make_unique<Uring>(ring, setup), setup.depth);
  errno = error;
  return nullptr;
}
#endif

std::unique_ptr<DiskBackend> make_disk_backend(const DiskBackendSetup& setup) {
  if (auto backend = make_uring_backend(setup)) return backend;
  static std::atomic<bool> said = false;
  const std::string error = std::system_category().message(errno);
  say_once(said, kHasUring ? fmt::format("the disk tier works with threads: io_uring is refused here ({})", error)
                           : "the disk tier works with threads: this program was built without liburing");
  return make_thread_backend(setup);
}

}  // namespace spillway
