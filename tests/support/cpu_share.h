// Fixes the share of the CPUs that threads have, so that other programs on the test's machine do not matter.
#pragma once

#include "runtime/cpu_share.h"

namespace spillway::testing {

// Acts during its lifetime; there may be one at a time.
class FixedCpuShare {
 public:
  explicit FixedCpuShare(double share) {
    share_ = share;
    set_cpu_probe([](ThreadPool&) { return CpuTime{share_, 1}; });
  }
  ~FixedCpuShare() { set_cpu_probe(nullptr); }
  FixedCpuShare(const FixedCpuShare&) = delete;
  FixedCpuShare& operator=(const FixedCpuShare&) = delete;

 private:
  inline static double share_ = 1;
};

}  // namespace spillway::testing
