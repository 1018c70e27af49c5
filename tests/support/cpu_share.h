// What threads have of the CPUs, in the place of what other programs on the test's machine leave them.
#pragma once

#include "runtime/cpu_share.h"

namespace spillway::testing {

// For as long as it lives; one at a time.
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
