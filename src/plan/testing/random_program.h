// Helpers for tests of plans: random graphs of operations that only mix bytes, and an interpreter that executes a
// Program on real bytes in any order that its lanes and waits permit. Its result is the truth for the verdicts of the
// verifier.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/random.h"
#include "graph/builder.h"
#include "plan/program.h"

namespace spillway::testing {

struct RandomGraphOptions {
  int blocks = 3;
  int ops_per_block = 5;
  int weights = 2;
  uint32_t max_bytes = 600;        // of a value
  bool updates_in_blocks = false;  // an update belongs to the block of its weight, as in a training's graph
  bool collectives = false;        // some operations are of all ranks
  int64_t micro_batches = 1;       // that the graph computes together, block by block (graph/repeat_by_block.h)
  bool whole_step = false;         // these are all of a step: sums of gradients are plain values
  int experts = 0;  // in each block, of a mixture, which an operation reads only if another one says so (OpDef::guard)
};

// Returns a graph with blocks, a backward pass by append_backward, an update of every weight, in-place operations,
// workspaces and several outputs. Its operations have kernels for the CPU. The same seed gives the same graph.
[[nodiscard]] Graph random_graph(uint64_t seed, const RandomGraphOptions& options = {});

// The contents of every result and persistent value (as hashes) after one step of two micro-batches.
using Outcome = std::map<ValueId, uint64_t>;
[[nodiscard]] Outcome expected_outcome(const Graph& graph);

// For other code that executes the same step: fill_initial() writes the content of a persistent value before it
// (micro-batch 0) or of a batch value in a micro-batch; outcome_of() returns the hash of contents, as in an Outcome.
void fill_initial(ValueId id, int micro_step, std::span<uint8_t> bytes);
[[nodiscard]] uint64_t outcome_of(std::span<const uint8_t> bytes);

// Executes the program, choosing at random among the instructions that may come next. Absent if an operand lies outside
// its arena. REQUIRES: ids are in range.
[[nodiscard]] std::optional<Outcome> execute(const Graph& graph, const Program& program, RandomStream& random);

}  // namespace spillway::testing
