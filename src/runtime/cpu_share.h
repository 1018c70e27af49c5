// Measures whether computing threads get the CPUs they need. A measurement beside other programs shows what those left,
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

// Makes all threads of the pool want a CPU for four milliseconds. A thread that starts too late has had none.
[[nodiscard]] CpuTime probe_cpus(ThreadPool& pool, const CpuClocks& clocks = {});

// The share of the CPUs that the pool's threads have during a measurement, from probes in between. If a quota (cgroup)
// allows less than all threads could use, the share is of the quota. For use by one thread.
class CpuShare {
 public:
  explicit CpuShare(ThreadPool& pool) : pool_(pool) {}

  void sample();
  // Samples, unless the last sample is so recent that samples would take more than this share of the time.
  void sample_at_intervals(double max_share = 0.05);
  // Adds samples until there are enough to judge by.
  void complete();

  // Returns CPU time per wall time; 1 without samples.
  [[nodiscard]] double value() const;
  [[nodiscard]] bool is_busy() const { return value() < kMinCpuShare; }

 private:
  ThreadPool& pool_;
  CpuTime sum_;
  int samples_ = 0;
  double last_seconds_ = 0;  // when the last sample ended
};

// Returns true if a measurement with the share `then` is provisional and would now be made on a quiet machine, or on
// one that is clearly less busy.
[[nodiscard]] bool is_worth_measuring_again(double then, double now);
// Prints on standard error that the machine is busy and that `what` is therefore provisional; if a BusyNotes exists,
// passes the message to it instead.
void say_busy(std::string_view what, double cpu_share);
// Says at the end of a run that it had this share, and that what its steps took is not kept for later plans; nothing
// where a BusyNotes has said that the machine is busy.
void say_was_busy(double cpu_share);

// Collects the messages of say_busy() in a command into one line, and holds it back until it is known whether the
// command goes on: an error is then the only line. At most one at a time, on the thread that measures.
class BusyNotes {
 public:
  BusyNotes();
  ~BusyNotes();
  BusyNotes(BusyNotes&&) = delete;

  // Prints the messages collected so far. Later ones are not printed: one line per command is enough.
  void say();

 private:
  friend void say_busy(std::string_view what, double cpu_share);
  friend void say_was_busy(double cpu_share);
  std::vector<std::string> provisional_;  // in the order in which it was measured
  double cpu_share_ = 1;                  // the least of them
  bool is_said_ = false;
};

// Replaces the probe of CpuShare's samples; null: probe_cpus. For tests, which must not depend on other programs.
using CpuProbe = CpuTime (*)(ThreadPool& pool);
void set_cpu_probe(CpuProbe probe);

}  // namespace spillway
