// The threads that serve connections: one from the start, more as connections come, up to a maximum. If the system
// refuses a thread, connections wait for the existing ones.
#pragma once

#include <httplib.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace spillway::serve {

class ConnectionThreads : public httplib::TaskQueue {
 public:
  using Body = std::function<void()>;
  using Start = std::function<std::thread(Body body)>;

  // `start` is for tests; it may fail with std::system_error, as std::thread does. Throws std::system_error if not even
  // one thread can be started. REQUIRES: max_threads >= 1.
  explicit ConnectionThreads(int64_t max_threads, Start start = &start_thread);
  ~ConnectionThreads() override;
  ConnectionThreads(ConnectionThreads&&) = delete;

  // Some versions of the library return whether a task is taken; here each is.
  using Taken = decltype(std::declval<httplib::TaskQueue&>().enqueue(std::function<void()>()));
  Taken enqueue(std::function<void()> task) override;
  // Returns when all tasks are done.
  void shutdown() override;

  [[nodiscard]] int64_t threads() const;
  [[nodiscard]] int64_t idle_threads() const;

 private:
  static std::thread start_thread(Body body);
  void work();

  const int64_t max_threads_;
  Start start_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;  // that wait
  std::vector<std::thread> threads_;
  int64_t idle_ = 0;  // threads that wait for a task
  bool has_warned_ = false, is_ending_ = false;
};

}  // namespace spillway::serve
