// Puts several micro-batches into one graph, ordered block by block.
//
// A block's operations then run for all micro-batches of the group before the next block's, in the forward pass and in
// the backward pass, so that a weight that lives in slower memory comes once for all of them
// (docs/modes/vertical.md). What each micro-batch computes has the same bits in any order; what they share are weights
// and the sums of their gradients, which are added in the order of the micro-batches, as if one ran after the other.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace spillway {

// The values of the micro-batches of a group, by those of the first.
class RepeatedValues {
 public:
  RepeatedValues(int64_t count, size_t values);

  // Returns the value of micro-batch `number`, counted from 0, that is what `value` is of the first: `value` itself
  // where all micro-batches share it, or nothing reads it. kNone stays kNone.
  [[nodiscard]] ValueId of(ValueId value, int64_t number) const;
  // Returns true if `value` is one of the first micro-batch that the others have, too.
  [[nodiscard]] bool has(ValueId value) const;
  void set(ValueId value, int64_t number, ValueId repeated);

 private:
  std::vector<std::vector<ValueId>> by_number_;
};

// Returns an operation that makes zeros of a type, without its output. The caller passes it, since operations stand
// below this folder (ops::zeros).
using ZerosFunction = Operation (*)(const ValueType& type);

// Repeats all operations of the graph for `count` micro-batches, of which the graph had the first. Operations that
// follow each other in a section and are of one block stay together: those of the first micro-batch, then those of the
// second, and so on; one that reads values of kExpertPart goes by itself through all micro-batches. The operations
// outside blocks that begin the section behind a recomputable one become the last ones of that section, up to the first
// that may not run again, so that each micro-batch finishes the head before the next one reaches it. Batch values that
// they read, outputs, axes and results are repeated: axis `a` of micro-batch i is a + i * axes, under the same name,
// and the results of a micro-batch follow those of the one before it. Persistent values are shared, and so is what
// operations make of these alone; each micro-batch begins with what the one before it left.
//
// With `zeros`, for groups that are a whole step, no persistent value is changed: one that has a next version, a sum
// over micro-batches, becomes the output of such an operation, right before the first micro-batch reads it. Its
// versions are plain values then, of which the last one alone has a group.
//
// REQUIRES: every section runs once per micro-batch, and a persistent value that has a next version is read by the
// operation that makes it alone.
[[nodiscard]] RepeatedValues repeat_by_block(Graph& graph, int64_t count, ZerosFunction zeros = nullptr);

// Returns the first axis of that name: what the axis counts in the first micro-batch.
[[nodiscard]] AxisId axis_of_first(const Graph& graph, AxisId axis);

}  // namespace spillway
