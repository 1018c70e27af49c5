#include "base/parallel.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <system_error>

#include "base/cgroup.h"
#include "base/cpu_relax.h"
#include "base/error.h"
#include "base/math.h"
#include "base/shared_cpus.h"

namespace spillway {
namespace {

// The spins are long enough to bridge the gap between two kernels, short enough not to burn a core between steps. A
// thread that waits longer sleeps: on a busy machine a sleeper is given a core at once when it is woken, a thread that
// yields only after others have used up their turns.
constexpr int kSpins = 4000;

}  // namespace

ThreadPool::ThreadPool(int threads) {
  SPILLWAY_CHECK(threads >= 1, "{} threads", threads);
  try {
    for (int thread = 1; thread < threads; ++thread) workers_.emplace_back([this, thread] { work(thread); });
  } catch (const std::system_error& error) {
    stop();
    throw machine_error("threads", "expected to start {}, got \"{}\"; raise the limit on threads (ulimit -u)", threads,
                        error.what());
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  stop_ = true;
  ++generation_;
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(int64_t items, int64_t grain, Function function, const void* context) {
  if (items <= 0) return;
  if (workers_.empty() || items <= grain) {
    function(context, 0, items, 0);
    return;
  }
  function_ = function;
  context_ = context;
  items_ = items;
  // Makes a few chunks per thread, so that a core that other work slows down takes fewer.
  chunk_ = std::max(grain, div_ceil(items, int64_t{4} * threads()));
  chunks_ = static_cast<int32_t>(div_ceil(items, chunk_));
  left_.store(chunks_, std::memory_order_relaxed);
  open_.store(chunks_, std::memory_order_release);
  ++generation_;
  generation_.notify_all();
  take_chunks(0);
  for (int spin = 0; left_ != 0 && spin < kSpins; ++spin) cpu_relax();
  for (int32_t left = left_; left != 0; left = left_) left_.wait(left);
}

void ThreadPool::work(int thread) {
  uint32_t seen = 0;
  for (;;) {
    for (int spin = 0; generation_ == seen && spin < kSpins; ++spin) cpu_relax();
    generation_.wait(seen);
    seen = generation_;
    if (stop_) return;
    take_chunks(thread);
  }
}

// Takes chunks until none is open. A worker that wakes late may take a chunk of the next job, or find none: both are
// right.
void ThreadPool::take_chunks(int thread) {
  for (;;) {
    const int32_t open = open_.fetch_sub(1, std::memory_order_acq_rel);
    if (open <= 0) return;
    const int64_t begin = (chunks_ - open) * chunk_;
    function_(context_, begin, std::min(items_, begin + chunk_), thread);
    if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) left_.notify_one();
  }
}

namespace {

int processes_here = 1;

cpu_set_t cpus_of(pid_t process) {
  cpu_set_t set;
  if (sched_getaffinity(process, sizeof(set), &set) != 0) CPU_ZERO(&set);
  return set;
}

// Returns true if whoever started this process gave it CPUs of its own.
bool is_bound(const cpu_set_t& cpus) {
  const cpu_set_t parents = cpus_of(::getppid());
  return CPU_COUNT(&parents) > 0 && !CPU_EQUAL(&cpus, &parents);
}

}  // namespace

void share_cpus(int processes) { processes_here = processes; }

int available_cpus() {
  const cpu_set_t set = cpus_of(0);
  int cpus = CPU_COUNT(&set);
  if (processes_here > 1 && !is_bound(set)) cpus /= processes_here;
  const double quota = cpu_quota();
  if (quota < cpus) cpus = static_cast<int>(std::ceil(quota));
  return std::max(cpus, 1);
}

double cpu_quota() { return ControlGroups().cpu_quota() / processes_here; }

}  // namespace spillway
