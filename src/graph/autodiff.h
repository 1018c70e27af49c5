// Reverse-mode differentiation: appends the backward pass to a Graph as ordinary operations.
//
// Visits operations in reverse order; each one's vjp turns the cotangents of its outputs into cotangents of its inputs.
// A value that several operations read collects a sum; a vjp that can add in place takes what has been collected so far
// as its addend (take_addend), so that no separate addition remains. So it may take a weight's gradient accumulator, a
// sum over micro-batches: but only where it is the one operation that reads the weight. Each micro-batch's gradient is
// complete, from zero, before it is added (docs/decisions/0033-sums-over-ranks.md).
#pragma once

#include <span>
#include <vector>

#include "base/index.h"
#include "graph/builder.h"

namespace spillway {

// Appends a + b, both of one type. The caller passes it, since operations stand below this folder (ops::add).
using SumFunction = ValueId (*)(Builder& builder, ValueId a, ValueId b);

// The interface through which an operation's vjp reads the graph and adds cotangents.
class VjpContext {
 public:
  VjpContext(Builder& builder, std::vector<ValueId>& cotangents, const std::vector<ValueId>& accumulators,
             const std::vector<bool>& wanted, const std::vector<DType>& gradient_dtypes, SumFunction sum, OpId op)
      : builder_(builder),
        cotangents_(cotangents),
        accumulators_(accumulators),
        wanted_(wanted),
        gradient_dtypes_(gradient_dtypes),
        sum_(sum),
        op_(op) {}

  [[nodiscard]] Builder& builder() { return builder_; }
  [[nodiscard]] int inputs() const { return static_cast<int>(op().inputs.size()); }
  [[nodiscard]] ValueId input(int i) const { return nth(op().inputs, i); }
  [[nodiscard]] ValueId output(int i) const { return nth(op().outputs, i); }
  [[nodiscard]] const ValueType& input_type(int i) const { return builder_.type(input(i)); }
  // Returns a copy, since appending operations moves the graph's own.
  [[nodiscard]] Attributes attributes() const { return op().attributes; }
  // Returns the cotangent of output i, or kNone if none flows into it.
  [[nodiscard]] ValueId cotangent(int i) const { return nth(cotangents_, output(i)); }
  // Returns true if input i is present and its gradient leads to a trainable weight.
  [[nodiscard]] bool wants(int i) const { return input(i) != kNone && nth(wanted_, input(i)); }
  // Returns the dtype in which the gradient of input i is kept: its own, or the job's choice for a trainable weight.
  [[nodiscard]] DType gradient_dtype(int i) const { return nth(gradient_dtypes_, input(i)); }

  // Returns the sum collected so far for input i (or kNone) and forgets it: the caller adds it into what it passes to
  // add(), once, when its own sum is complete. It may be an accumulator.
  [[nodiscard]] ValueId take_addend(int i);
  // Does the same for a caller that begins its own sum with it: returns kNone in place of an accumulator, to which
  // add() then adds.
  [[nodiscard]] ValueId take_first_term(int i);
  // Returns the operation that has just been appended, in the block of this one, if it gives the sum collected so far
  // for input i and nothing else has this sum; else null. What this vjp has for the input may then be added there.
  [[nodiscard]] Operation* last_of_sum(int i);
  // Adds `cotangent` to the sum of input i.
  void add(int i, ValueId cotangent);

 private:
  [[nodiscard]] const Operation& op() const { return builder_.graph().op(op_); }

  Builder& builder_;
  std::vector<ValueId>& cotangents_;  // by value
  const std::vector<ValueId>& accumulators_;
  const std::vector<bool>& wanted_;
  const std::vector<DType>& gradient_dtypes_;
  SumFunction sum_;
  OpId op_;
};

struct WeightGradient {
  ValueId weight = kNone;
  DType dtype = DType::kF32;
  ValueId accumulator = kNone;  // a persistent value that the whole gradient is added to; kNone: none
  ValueId gradient = kNone;     // out: the gradient, or the accumulator's next version
};

// Appends the gradient of the sum of the scalars `losses` with respect to each weight, in a section "backward", and
// fills in `gradient`. The operation that produces a loss must scale its own cotangent of one (see
// ops/linear_cross_entropy). Throws InputError where an operation on the way is not differentiable or a weight does not
// influence a loss.
void append_backward(Builder& builder, std::span<const ValueId> losses, std::span<WeightGradient> weights,
                     SumFunction sum);
// The same of one loss.
void append_backward(Builder& builder, ValueId loss, std::span<WeightGradient> weights, SumFunction sum);

}  // namespace spillway
