// The order of execution, and which buffer every operand lives in for how long.
//
// From a Graph and a treatment of every saved activation this derives the steps of one optimizer step: the forward
// operations, the backward operations with recomputations right before their first reader, and the update. Each value
// gets a buffer with a half-open lifetime in steps; an output takes its input's buffer where the operation allows it
// and nobody reads the input afterwards. No offsets yet, no device, no clock.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/budget.h"
#include "plan/program.h"

namespace spillway {

using BufferId = int32_t;

// A value that lives in a buffer from step `begin` on, until the next tenant moves in or the buffer dies.
struct Tenant {
  ValueId value = kNone;
  int32_t begin = 0;
};

struct Buffer {
  Tier tier = Tier::kDevice;
  int64_t bytes = 0;
  int32_t begin = 0;            // first step that writes it
  int32_t end = 0;              // one past the last step that reads it
  bool fixed = false;           // a persistent or batch value: alive in all steps and between them
  std::vector<Tenant> tenants;  // empty: the workspace of step `begin`
};

// One execution of an operation.
struct Step {
  OpId op = kNone;
  bool recompute = false;
  std::vector<BufferId> inputs;  // kNone where an operand is absent
  std::vector<BufferId> outputs;
  BufferId workspace = kNone;
};

struct Schedule {
  std::vector<Step> steps;
  std::vector<Buffer> buffers;
  std::vector<Section> sections;     // in steps
  std::vector<BufferId> persistent;  // by value: the buffer of a persistent or batch value, else kNone
  std::vector<BufferId> results;     // in the order of Graph::results
};

// The treatment of every value, from that of its block: what a block's forward operations produce and its backward
// operations read is treated as the block is, except what other blocks' forward operations read too: that is the
// block's output, and it is kept. REQUIRES: one entry a block.
[[nodiscard]] std::vector<Treatment> treat_values(const Graph& graph, std::span<const Treatment> blocks);

// REQUIRES: verify(graph) is empty; one treatment a value, kKeep or kRecompute. `threads` sizes workspaces.
[[nodiscard]] Schedule make_schedule(const Graph& graph, std::span<const Treatment> treatment, int threads);

// The bytes of each step's live buffers in `tier`; their largest sum is the lower bound of the arena.
[[nodiscard]] std::vector<int64_t> live_bytes(const Schedule& schedule, Tier tier);

}  // namespace spillway
