// Threads that work on items whose results are taken in the order in which the items came, so that the output does not
// depend on the number of threads.
//
//   OrderedWorkers<Chunk> workers(threads, [](Chunk& chunk) { tokenize(chunk); });
//   workers.push(std::move(chunk));
//   while (!workers.empty()) collect(workers.pop());
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.h"

namespace spillway {

// A pool of such threads. push(), pop() and empty() are for one thread.
template <typename Item>
class OrderedWorkers {
 public:
  // `work` must not throw: errors are stored in the item. Throws MachineError if the system refuses every thread; goes
  // on with fewer than asked for. REQUIRES: threads >= 1.
  OrderedWorkers(int threads, std::function<void(Item&)> work) : work_(std::move(work)) {
    try {
      for (int i = 0; i < threads; ++i) workers_.emplace_back([this] { run(); });
    } catch (const std::system_error& error) {
      if (workers_.empty())
        throw machine_error("threads", "expected to start {}, got \"{}\"; raise the limit on threads (ulimit -u)",
                            threads, error.what());
    }
  }
  // Drops items that no thread has begun.
  ~OrderedWorkers() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }
  OrderedWorkers(OrderedWorkers&&) = delete;

  // Returns true if every item that was pushed has been taken.
  [[nodiscard]] bool empty() const { return slots_.empty(); }

  void push(std::unique_ptr<Item> item) {
    {
      const std::lock_guard lock(mutex_);
      slots_.push_back(std::make_unique<Slot>(Slot{std::move(item)}));
      waiting_.push_back(slots_.back().get());
    }
    changed_.notify_all();
  }

  // Returns the oldest item; waits until it is done. REQUIRES: !empty().
  [[nodiscard]] std::unique_ptr<Item> pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return slots_.front()->done; });
    std::unique_ptr<Item> item = std::move(slots_.front()->item);
    slots_.pop_front();
    return item;
  }

 private:
  struct Slot {
    std::unique_ptr<Item> item;
    bool done = false;
  };

  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
      if (stop_) return;
      Slot* slot = waiting_.front();
      waiting_.pop_front();
      lock.unlock();
      work_(*slot->item);
      lock.lock();
      slot->done = true;
      changed_.notify_all();
    }
  }

  std::function<void(Item&)> work_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Slot>> slots_;  // in order; written by the caller's thread alone
  std::deque<Slot*> waiting_;                // those of them that no thread has begun
  bool stop_ = false;
  std::vector<std::thread> workers_;  // the last member: threads see the others ready
};

}  // namespace spillway
