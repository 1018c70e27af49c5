// The loads of the experts of mixtures: how often they came to the device for their products, and the bytes of that.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/executor.h"

namespace spillway {

// A load brings all tensors of an expert that a pass reads: forward, recomputation and backward each count for
// themselves, and micro-batches that share what came count once.
struct ExpertLoads {
  int64_t loads = 0;
  int64_t bytes = 0;
};

// Returns what a program has loaded so far, added to `before`, the same of programs that ran before it; nullopt for a
// graph without experts. A load whose guard left it out does not count; experts that live on the device have none.
// REQUIRES: the executor runs the program.
[[nodiscard]] std::optional<ExpertLoads> expert_loads(const Graph& graph, const Program& program,
                                                      const Executor& executor, const ExpertLoads& before = {});

}  // namespace spillway
