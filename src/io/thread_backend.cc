#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/index.h"
#include "base/sizes.h"
#include "io/disk_backend.h"

namespace spillway {
namespace {

// A queue of fixed capacity, first in, first out.
template <typename T>
class Ring {
 public:
  explicit Ring(int32_t capacity) : items_(make_vector<T>(capacity)) {}
  [[nodiscard]] bool empty() const { return count_ == 0; }
  void push(const T& item) { items_[(first_ + count_++) % items_.size()] = item; }
  T pop() {
    const T item = items_[first_];
    first_ = (first_ + 1) % items_.size();
    --count_;
    return item;
  }

 private:
  std::vector<T> items_;
  size_t first_ = 0, count_ = 0;
};

class ThreadBackend final : public DiskBackend {
 public:
  explicit ThreadBackend(const DiskBackendSetup& setup)
      : files_(setup.files), started_(setup.depth), finished_(setup.depth) {
    try {
      for (int32_t i = 0; i < setup.depth; ++i) workers_.emplace_back([this] { work(); });
    } catch (const std::system_error& error) {
      stop();
      throw machine_error("disk tier",
                          "expected to start {} threads, got \"{}\"; raise the limit on threads (ulimit -u)",
                          setup.depth, error.what());
    }
  }
  ~ThreadBackend() override { stop(); }
  ThreadBackend(ThreadBackend&&) = delete;

  [[nodiscard]] std::string_view name() const override { return "threads"; }

  void start(int32_t slot, const DiskBlock& block) override {
    {
      const std::lock_guard lock(mutex_);
      started_.push({slot, block});
    }
    work_is_there_.notify_one();
  }

  std::optional<Completion> finish(Wait wait) override {
    std::unique_lock lock(mutex_);
    if (wait == Wait::kYes) block_is_done_.wait(lock, [this] { return !finished_.empty(); });
    if (finished_.empty()) return std::nullopt;
    return finished_.pop();
  }

 private:
  struct Started {
    int32_t slot = 0;
    DiskBlock block;
  };

  void work() {
    // Leaves signals to the threads that handle them.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    std::unique_lock lock(mutex_);
    for (;;) {
      work_is_there_.wait(lock, [this] { return stop_ || !started_.empty(); });
      if (started_.empty()) return;
      const Started next = started_.pop();
      lock.unlock();
      const int64_t result = move(next.block);
      lock.lock();
      finished_.push({next.slot, result});
      block_is_done_.notify_one();
    }
  }

  [[nodiscard]] int64_t move(const DiskBlock& block) const {
    const int fd = nth(files_, block.file);
    const size_t bytes = static_cast<size_t>(block.bytes);
    const ssize_t moved = block.direction == DiskDirection::kRead ? ::pread(fd, block.memory, bytes, block.offset)
                                                                  : ::pwrite(fd, block.memory, bytes, block.offset);
    return moved < 0 ? -errno : moved;
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    work_is_there_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  std::vector<int> files_;
  std::mutex mutex_;  // guards what follows, but for the threads themselves
  std::condition_variable work_is_there_, block_is_done_;
  Ring<Started> started_;
  Ring<Completion> finished_;
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace

std::unique_ptr<DiskBackend> make_thread_backend(const DiskBackendSetup& setup) {
  return std::make_unique<ThreadBackend>(setup);
}

}  // namespace spillway
