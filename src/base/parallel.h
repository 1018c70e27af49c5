// The worker threads of the compute lane.
//
// parallel_for splits [0, items) into contiguous chunks of at least `grain` items and runs them on the pool and on the
// calling thread. It returns when every chunk is done, not when every worker has looked: a worker that other processes
// keep from a core delays only the chunk it holds. It allocates nothing after construction. The result of a kernel must
// not depend on how the range was split: reductions go over fixed blocks, never over threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace spillway {

class ThreadPool {
 public:
  // `threads` counts the caller: 1 runs everything inline. Throws MachineError if the system refuses a thread.
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
  // The current job. run() writes it while no chunk is open; a thread that has taken a chunk may read it, since run()
  // does not return before that chunk is done.
  Function function_ = nullptr;
  const void* context_ = nullptr;
  int64_t items_ = 0, chunk_ = 1;
  int32_t chunks_ = 0;
  // Chunks that no thread has taken; below zero if workers came late.
  alignas(64) std::atomic<int32_t> open_{0};
  // Chunks that are not done.
  alignas(64) std::atomic<int32_t> left_{0};
  alignas(64) std::atomic<uint32_t> generation_{0};  // raised when there is a new job
  std::atomic<bool> stop_{false};
};

// Returns the number of CPUs that this process may run on (affinity and cgroup quota), at least 1.
[[nodiscard]] int available_cpus();
// Returns the CPU time per wall time that the cgroup's quota allows this process; infinite without a quota.
[[nodiscard]] double cpu_quota();

}  // namespace spillway
