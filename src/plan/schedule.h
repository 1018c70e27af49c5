// The order of all steps of an optimizer step, and the buffer of every operand with its lifetime.
//
// Derives these from a Graph and a Placement: the forward operations, the backward operations with recomputations right
// before their first reader, the update, and between them the transfers of values that live elsewhere. Each value gets
// a buffer with a half-open lifetime in steps; an output takes its input's buffer if the operation allows it and no
// step reads the input afterwards. A transfer keeps its source until it should have ended. It knows no offsets, no
// device and no clock.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/choices.h"
#include "plan/cost_model.h"
#include "plan/operand_lists.h"
#include "plan/program.h"
#include "plan/transfers.h"

namespace spillway {

using BufferId = int32_t;

// A piece of memory. The outputs of steps say which values live in it, and since when.
struct Buffer {
  Tier tier = Tier::kDevice;
  bool fixed = false;       // the home of a persistent or batch value: live in all steps and between them
  bool meets_disk = false;  // a transfer moves it from or to the scratch file, or it lies there
  int64_t bytes = 0;
  int32_t begin = 0;  // first step that writes it
  int32_t end = 0;    // one past the last step that reads it

  // Return the alignment and bytes that it takes in its arena: transfers from and to the disk move whole blocks.
  [[nodiscard]] int64_t alignment() const;
  [[nodiscard]] int64_t padded_bytes() const;
};

// One execution of an operation, or one transfer: op is kNone, one input, one output, and the offsets of its guard as a
// second input, if it has one.
struct Step {
  OpId op = kNone;
  bool recompute = false;
  Lane lane = Lane::kCompute;
  ValueId moved = kNone;  // of a transfer: the version that moves
  BufferId workspace = kNone;
  LoadGuard guard;        // of a transfer
  OperandRange operands;  // in Schedule::operands
};

struct Schedule {
  std::vector<Step> steps;
  OperandLists<BufferId> operands;  // kNone where one is absent
  std::vector<Buffer> buffers;
  std::vector<SectionRange> sections;  // in steps
  std::vector<BufferId> persistent;    // by value: the home of a persistent or batch value, else kNone
  std::vector<BufferId> results;       // in the order of Graph::results

  [[nodiscard]] std::span<const BufferId> inputs(const Step& step) const { return operands.inputs(step.operands); }
  [[nodiscard]] std::span<const BufferId> outputs(const Step& step) const { return operands.outputs(step.operands); }
};

// Makes the schedule. `facts` is facts_of(graph), with workspaces. REQUIRES: verify(graph) is empty.
[[nodiscard]] Schedule make_schedule(const Graph& graph, const GraphFacts& facts, const Placement& placement,
                                     Overlap overlap, const CostModel& costs);

// Returns, by tier, the bytes of each step's live buffers; the largest sum is the lower bound of the arena.
[[nodiscard]] std::array<std::vector<int64_t>, kTiers> live_bytes(const Schedule& schedule);

}  // namespace spillway
