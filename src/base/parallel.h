// The worker threads of the compute lane.
//
// parallel_for splits [0, items) into contiguous chunks of at least `grain` items and runs them on the pool and on the
// calling thread. It allocates nothing after construction. What a kernel computes must not depend on how the range was
// split: reductions go over fixed blocks, never over threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace spillway {

class ThreadPool {
 public:
  // `threads` counts the caller: 1 runs everything inline. Throws MachineError where the system refuses a thread.
  // REQUIRES: threads >= 1.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(begin, end, thread) for chunks that cover [0, items); `thread` is in [0, threads()) and no two running
  // chunks share it. Returns when all are done. One caller at a time; the body must not call back into the pool or
  // throw.
  template <typename Body>
  void parallel_for(int64_t items, int64_t grain, const Body& body) {
    run(
        items, grain,
        [](const void* context, int64_t begin, int64_t end, int thread) {
          (*static_cast<const Body*>(context))(begin, end, thread);
        },
        &body);
  }

 private:
  using Function = void (*)(const void* context, int64_t begin, int64_t end, int thread);

  void run(int64_t items, int64_t grain, Function function, const void* context);
  void work(int thread);
  void stop();
  void take_chunks(int thread);

  std::vector<std::thread> workers_;
  // The job of the moment; written by run() before `generation_` is raised, read by workers after they saw it rise.
  Function function_ = nullptr;
  const void* context_ = nullptr;
  int64_t items_ = 0, chunk_ = 1;
  std::atomic<int64_t> next_{0};
  std::atomic<uint32_t> generation_{0};
  std::atomic<int32_t> running_{0};
  std::atomic<bool> stop_{false};
};

// The number of CPUs that this process may run on (affinity and cgroup quota), at least 1.
[[nodiscard]] int available_cpus();

}  // namespace spillway
