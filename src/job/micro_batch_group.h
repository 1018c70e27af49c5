// The values of micro-batches that one graph computes together, layer by layer (graph/repeat_by_block.h).
#pragma once

#include <cstdint>
#include <vector>

#include "graph/repeat_by_block.h"
#include "objectives/passes.h"

namespace spillway::train {

struct RepeatedMicroBatches {
  std::vector<MicroBatchValues> group;  // of each micro-batch
  RepeatedValues values;                // all of the graph's, by those of the first
};

// Repeats all operations of a graph for `count` micro-batches, as repeat_by_block() does. `first` are the values of the
// micro-batch that the graph has. REQUIRES: they are all that the host fills for that micro-batch alone.
[[nodiscard]] RepeatedMicroBatches repeat_micro_batches(Graph& graph, const MicroBatchValues& first, int64_t count,
                                                        ZerosFunction zeros = nullptr);

}  // namespace spillway::train
