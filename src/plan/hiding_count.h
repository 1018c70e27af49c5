// Counts the micro-batches that go through a layer together in passes without a backward pass, where these wait for
// what they bring to the device (docs/modes/vertical.md).
#pragma once

#include <cstdint>

#include "plan/planner.h"

namespace spillway {

// The most micro-batches that go together, as micro_batch_group.
constexpr int64_t kMaxTogether = 16;
// The least gain in speed for which a plan leaves one micro-batch after another: layer by layer, activations of several
// take memory that other programs may need.
constexpr double kWorthOrder = 1.03;

// Returns true if a run of the plan takes clearly longer than its arithmetic.
[[nodiscard]] bool waits_for_transfers(const Plan& plan);
// Returns the least power of two of micro-batches whose arithmetic takes as long as what one run brings to the device,
// `most` at most.
[[nodiscard]] int64_t hiding_count(const Plan& plan, int64_t most);
// Returns true if a plan for `count` micro-batches is clearly faster than so many runs of the plan for one.
[[nodiscard]] bool gains_together(const Plan& together, const Plan& alone, int64_t count);

}  // namespace spillway
