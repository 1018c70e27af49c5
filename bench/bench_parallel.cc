// The thread pool on a busy machine, beside libgomp's: what a row of short parallel loops costs while other processes
// want the same cores.
//
//   bench_parallel [--threads N] [--others N] [--rounds N]
//
// A round is 300 loops of some 20 microseconds on all threads, about the operations of one generated token. It runs on
// the quiet machine, beside N busy processes of idle priority, and beside N of equal priority (4 by default), the pool
// and libgomp in turns. A line holds the median wall time of both and the fair share: the quiet time by the share of
// the cores that the scheduler owes to `threads` among `threads + others` runnable threads.
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/parallel.h"

namespace {

using namespace spillway;

constexpr int kLoops = 300;
constexpr int64_t kItems = 64;

double work(int64_t item) {
  double x = 1 + 1e-3 * static_cast<double>(item);
  for (int i = 0; i < 300; ++i) x = x * 0.999 + 1e-3;
  return x;
}

volatile double g_sums[kItems];  // volatile: nothing else reads them

void loop_of_pool(ThreadPool& pool) {
  pool.parallel_for(kItems, 1, [](int64_t begin, int64_t end, int /*thread*/) {
    for (int64_t i = begin; i < end; ++i) g_sums[i] = work(i);
  });
}

void loop_of_libgomp(int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t i = 0; i < kItems; ++i) g_sums[i] = work(i);
}

template <typename Loop>
double seconds_of(const Loop& loop) {
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // libgomp's workers spin on after their last loop
  const double start = now_seconds();
  for (int i = 0; i < kLoops; ++i) loop();
  return now_seconds() - start;
}

// Processes that only burn time, until the object goes.
class BusyProcesses {
 public:
  BusyProcesses(int count, int policy) {
    for (int i = 0; i < count; ++i) {
      const pid_t child = fork();
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const sched_param none{};
        sched_setscheduler(0, policy, &none);
        for (volatile uint64_t turns = 0;;) turns = turns + 1;
      }
      if (child > 0) children_.push_back(child);
    }
  }
  ~BusyProcesses() {
    for (const pid_t child : children_) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  }
  BusyProcesses(const BusyProcesses&) = delete;

 private:
  std::vector<pid_t> children_;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  int threads = available_cpus(), others = 4, rounds = 9;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view option = argv[i];
    const int value = std::atoi(argv[i + 1]);
    if (option == "--threads") threads = value;
    if (option == "--others") others = value;
    if (option == "--rounds") rounds = value;
  }
  ThreadPool pool(threads);
  const int cores = available_cpus();
  double quiet = 0;
  fmt::print("{} threads on {} cores; {} loops per round, median of {} rounds, milliseconds\n", threads, cores, kLoops,
             rounds);
  fmt::print("{:32} {:>8} {:>8} {:>11}\n", "", "pool", "libgomp", "fair share");
  struct Surroundings {
    const char* name;
    int others, policy;
    double share;  // of the cores, for us
  };
  const double owed = std::min(1.0, static_cast<double>(threads) / (threads + others) * cores / threads);
  for (const Surroundings& around :
       {Surroundings{"quiet", 0, SCHED_OTHER, 1.0}, Surroundings{"beside idle priority", others, SCHED_IDLE, 1.0},
        Surroundings{"beside equal priority", others, SCHED_OTHER, owed}}) {
    const BusyProcesses busy(around.others, around.policy);
    std::vector<double> ours, peers;
    for (int round = 0; round < rounds; ++round) {
      ours.push_back(seconds_of([&] { loop_of_pool(pool); }));
      peers.push_back(seconds_of([&] { loop_of_libgomp(threads); }));
    }
    if (quiet == 0) quiet = median(ours);
    fmt::print("{:32} {:8.1f} {:8.1f} {:11.1f}\n", around.name, 1e3 * median(ours), 1e3 * median(peers),
               1e3 * quiet / around.share);
  }
  return 0;
}
