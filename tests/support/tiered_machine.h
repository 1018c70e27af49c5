// A machine with every tier and lane, on which transfers take about as long as what they could hide behind, so that
// plans differ.
#pragma once

#include "plan/machine.h"

namespace spillway::testing {

inline Machine tiered_machine() {
  Machine machine{.threads = 1};
  machine.capacity_bytes = {int64_t{1} << 30, int64_t{1} << 30, int64_t{1} << 30};
  machine.link_bytes_per_second.fill(2e8);
  return machine;
}

}  // namespace spillway::testing
