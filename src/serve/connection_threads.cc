#include "serve/connection_threads.h"

#include <system_error>

#include "base/error.h"
#include "base/log.h"

namespace spillway::serve {

ConnectionThreads::ConnectionThreads(int64_t max_threads, Start start)
    : max_threads_(max_threads), start_(std::move(start)) {
  SPILLWAY_CHECK(max_threads >= 1, "{} threads", max_threads);
  threads_.push_back(start_([this] { work(); }));
}

std::thread ConnectionThreads::start_thread(Body body) { return std::thread(std::move(body)); }

ConnectionThreads::~ConnectionThreads() { shutdown(); }

ConnectionThreads::Taken ConnectionThreads::enqueue(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    if (std::ssize(tasks_) > idle_ && std::ssize(threads_) < max_threads_) {
      try {
        threads_.push_back(start_([this] { work(); }));
      } catch (const std::system_error& error) {
        if (!std::exchange(has_warned_, true))
          log_warning(
              "[threads] expected to start one more than {} for connections, got \"{}\"; more connections wait: "
              "raise the limit on threads (ulimit -u)",
              threads_.size(), error.code().message());
      }
    }
  }
  changed_.notify_one();
  return static_cast<Taken>(true);
}

void ConnectionThreads::shutdown() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

int64_t ConnectionThreads::threads() const {
  const std::lock_guard lock(mutex_);
  return std::ssize(threads_);
}

int64_t ConnectionThreads::idle_threads() const {
  const std::lock_guard lock(mutex_);
  return idle_;
}

void ConnectionThreads::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    changed_.wait(lock, [&] { return is_ending_ || !tasks_.empty(); });
    --idle_;
    if (tasks_.empty()) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace spillway::serve
