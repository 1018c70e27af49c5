// Measures how long the operations of graphs take on this computer, at their real sizes, for the planner's Machine.
//
// A model repeats its layers, so graphs of thousands of operations have a few dozen signatures. Each is run a few times
// on scratch memory, in rounds over all of them, so that an operation finds the caches full of other data, as it does
// in a step, and so that a disturbance of the computer falls on few samples of each. The lower quartile counts.
// Operations that would take long (attention over a very long sequence; anything on a slow computer) work on a shorter
// stream, and their time is scaled with their arithmetic.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "backend/device.h"
#include "base/bytes.h"
#include "plan/machine.h"
#include "tensor/view.h"

namespace spillway {

// A graph whose operations are measured.
struct MeasuredGraph {
  const Graph* graph = nullptr;
  // Fills a batch value, whose content decides what a kernel touches: ids, positions, labels, sequence offsets. The
  // stream holds `tokens` tokens.
  std::function<void(ValueId value, const TensorView& view, int64_t tokens)> fill_batch;
};

struct OperationMeasureOptions {
  Device* device = nullptr;  // of the compute lane; null: the CPU
  int64_t sequence_len = 0;  // streams shorter than a graph's are cut at multiples of it where they can
  double seconds = 2.5;      // about, for each graph; one round is made in any case
  // Called after each operation of the first round, the longest one: how many are done, and of how many.
  std::function<void(int64_t done, int64_t of)> on_progress = {};
  // Scratch memory, released at the end; an operation gets a third of it. Operations that need more work on fewer rows,
  // and those that cannot are left to the rates. At most a quarter of the free memory is used in any case.
  int64_t memory_bytes = kGiB;
};

// Adds to `machine.operations` those operations of all graphs that are missing there, or are provisional and worth
// measuring again. Returns how many that are. On a busy machine (cpu_share.h) they are provisional, and a message says
// so. Those that may run on the host are measured on the CPU, too, as the host_compute lane runs them. If the device's
// libraries offer several algorithms for an operation, they choose by measuring, too, and `machine.algorithms` keeps
// the choice. Prints how many on standard error before it starts. REQUIRES: verify(graph) is empty, for each.
int64_t measure_operations(std::span<const MeasuredGraph> programs, const OperationMeasureOptions& options,
                           Machine& machine);

}  // namespace spillway
