// Whether threads that compute have the CPUs they want. What is measured beside other programs says what those left,
// not what the machine can do: it is provisional (Machine::CpuShares).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/parallel.h"
#include "plan/machine.h"

namespace spillway {

struct CpuTime {
  double had_seconds = 0;     // CPU time
  double wanted_seconds = 0;  // wall time, summed over the threads
};

struct CpuClocks {
  double (*wall)() = now_seconds;
  double (*cpu)() = thread_cpu_seconds;  // of the calling thread
};

// Has all threads of the pool want a CPU for four milliseconds. A thread that comes too late has had none.
[[nodiscard]] CpuTime probe_cpus(ThreadPool& pool, const CpuClocks& clocks = {});

// The share of the CPUs that the pool's threads have while something is measured, from probes in between. Where a quota
// (cgroup) allows less than all threads could use, the share is of the quota. One thread.
class CpuShare {
 public:
  explicit CpuShare(ThreadPool& pool) : pool_(pool) {}

  void sample();
  // The same, unless the last sample is so recent that samples would take more than this share of the time.
  void sample_at_intervals(double max_share = 0.05);
  // Adds samples where there are too few to judge by.
  void complete();

  // CPU time per wall time; 1 without samples.
  [[nodiscard]] double value() const;
  [[nodiscard]] bool is_busy() const { return value() < kMinCpuShare; }

 private:
  ThreadPool& pool_;
  CpuTime sum_;
  int samples_ = 0;
  double last_seconds_ = 0;  // when the last sample ended
};

// Whether what was measured with the share `then` is provisional and would now be measured on a quiet machine, or one
// that is clearly less busy.
[[nodiscard]] bool is_worth_measuring_again(double then, double now);
// Says on standard error that the machine is busy, and that `what` is therefore provisional; while there is a
// BusyNotes, that says it.
void say_busy(std::string_view what, double cpu_share);
// Says at the end of a run that it had this share, and that what its steps took is not kept for later plans; nothing
// where a BusyNotes has said that the machine is busy.
void say_was_busy(double cpu_share);

// Makes one line of all that say_busy() has to say in a command, and holds it back until it is known whether the
// command goes on: an error is then the only line. One at a time, on the thread that measures.
class BusyNotes {
 public:
  BusyNotes();
  ~BusyNotes();
  BusyNotes(BusyNotes&&) = delete;

  // Says what has come together. What comes later is not said: one line a command is enough.
  void say();

 private:
  friend void say_busy(std::string_view what, double cpu_share);
  friend void say_was_busy(double cpu_share);
  std::vector<std::string> provisional_;  // in the order in which it was measured
  double cpu_share_ = 1;                  // the least of them
  bool is_said_ = false;
};

// What CpuShare samples with from now on; null: probe_cpus. For tests, which must not depend on what else runs.
using CpuProbe = CpuTime (*)(ThreadPool& pool);
void set_cpu_probe(CpuProbe probe);

}  // namespace spillway
