#include "graph/autodiff.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/index.h"

namespace spillway {
namespace {

// Returns, for every value, whether it depends on one of the weights: only those need cotangents.
std::vector<bool> values_that_depend_on(const Graph& graph, std::span<const WeightGradient> weights) {
  std::vector<bool> depends(graph.values.size(), false);
  for (const WeightGradient& w : weights) nth(depends, w.weight) = true;
  for (const Operation& op : graph.ops) {
    if (op.def->stops_gradients) continue;
    bool any = false;
    for (const ValueId id : op.inputs) any = any || (id != kNone && nth(depends, id));
    if (!any) continue;
    for (const ValueId id : op.outputs) nth(depends, id) = true;
  }
  return depends;
}

// Returns the last operation that produces one of the losses.
OpId last_producer(const Graph& graph, std::span<const ValueId> losses) {
  OpId last = kNone;
  for (const ValueId loss : losses) last = std::max(last, graph.value(loss).producer);
  return last;
}

// Counts the reads of a value by operations on its way to a loss. The first of these is the last to add to its
// gradient.
struct Uses {
  int count = 0;
  OpId first = kNone;
};

// Returns the uses of every value. REQUIRES: an operation produces each of `losses`.
std::vector<Uses> uses_before(const Graph& graph, std::span<const ValueId> losses) {
  std::vector<bool> reaches(graph.values.size(), false);
  std::vector<Uses> uses(graph.values.size());
  for (const ValueId loss : losses) nth(reaches, loss) = true;
  for (OpId id = last_producer(graph, losses); id >= 0; --id) {
    const Operation& op = graph.op(id);
    const auto leads_to_loss = [&](ValueId output) { return nth(reaches, output); };
    if (op.def->stops_gradients || std::none_of(op.outputs.begin(), op.outputs.end(), leads_to_loss)) continue;
    for (const ValueId input : op.inputs) {
      if (input == kNone) continue;
      nth(reaches, input) = true;
      nth(uses, input) = {nth(uses, input).count + 1, id};
    }
  }
  return uses;
}

}  // namespace

ValueId VjpContext::take_addend(int i) {
  ValueId& sum = nth(cotangents_, input(i));
  return std::exchange(sum, kNone);
}

ValueId VjpContext::take_first_term(int i) {
  const bool is_accumulator = nth(cotangents_, input(i)) == nth(accumulators_, input(i));
  return is_accumulator ? kNone : take_addend(i);
}

Operation* VjpContext::last_of_sum(int i) {
  const ValueId sum = nth(cotangents_, input(i));
  Operation& last = builder_.graph().ops.back();
  if (sum == kNone || last.outputs != std::vector<ValueId>{sum} || last.block != op().block) return nullptr;
  return std::count(cotangents_.begin(), cotangents_.end(), sum) == 1 ? &last : nullptr;
}

void VjpContext::add(int i, ValueId cotangent) {
  ValueId& sum = nth(cotangents_, input(i));
  sum = sum == kNone ? cotangent : sum_(builder_, sum, cotangent);
}

namespace {

class Backward {
 public:
  Backward(Builder& builder, std::span<const ValueId> losses, std::span<WeightGradient> weights, SumFunction sum)
      : builder_(builder),
        losses_(losses),
        weights_(weights),
        sum_(sum),
        wanted_(values_that_depend_on(builder.graph(), weights)),
        uses_(uses_before(builder.graph(), losses)),
        cotangents_(graph().values.size(), kNone),
        accumulators_(graph().values.size(), kNone) {
    for (const Value& value : graph().values) dtypes_.push_back(value.type.dtype);
    for (const WeightGradient& w : weights) {
      nth(dtypes_, w.weight) = w.dtype;
      nth(accumulators_, w.weight) = w.accumulator;
      if (nth(uses_, w.weight).count == 1) nth(cotangents_, w.weight) = w.accumulator;
    }
  }

  void run() {
    builder_.begin_section(backward_section());
    for (OpId id = last_producer(graph(), losses_); id >= 0; --id) {
      builder_.set_block(graph().op(id).block);
      differentiate(id);
      accumulate(id);
    }
    builder_.set_block(kNone);
    for (WeightGradient& w : weights_) finish(w);
  }

 private:
  [[nodiscard]] Graph& graph() { return builder_.graph(); }

  void differentiate(OpId id) {
    const Operation& op = graph().op(id);
    bool flows =
        std::any_of(losses_.begin(), losses_.end(), [&](ValueId loss) { return graph().value(loss).producer == id; });
    for (const ValueId output : op.outputs) flows = flows || nth(cotangents_, output) != kNone;
    bool leads_to_weight = false;
    for (const ValueId input : op.inputs) leads_to_weight = leads_to_weight || (input != kNone && nth(wanted_, input));
    if (!flows || !leads_to_weight || op.def->stops_gradients) return;
    if (!op.def->vjp) {
      throw input_error(op.def->name,
                        "expected a differentiable operation on the way to a trainable weight, got {}; "
                        "freeze what it depends on",
                        graph().value(op.outputs[0]).name);
    }
    VjpContext context(builder_, cotangents_, accumulators_, wanted_, dtypes_, sum_, id);
    op.def->vjp(context);
  }

  // Adds the gradient of each weight that is read several times, and by `id` first of all, to its accumulator.
  void accumulate(OpId id) {
    const std::vector<ValueId> inputs = graph().op(id).inputs;  // a copy, since appending moves the graph's own
    for (const ValueId input : inputs) {
      if (input == kNone || nth(uses_, input).count < 2 || nth(uses_, input).first != id) continue;
      ValueId& gradient = nth(cotangents_, input);
      const ValueId accumulator = std::exchange(nth(accumulators_, input), kNone);
      if (accumulator != kNone && gradient != kNone) gradient = sum_(builder_, accumulator, gradient);
    }
  }

  void finish(WeightGradient& w) {
    w.gradient = nth(cotangents_, w.weight);
    if (w.gradient == kNone || w.gradient == w.accumulator) {
      throw input_error(graph().value(w.weight).name, "expected a weight that the loss depends on; freeze it");
    }
    graph().value(w.gradient).kind = ValueKind::kGradient;
    graph().value(w.gradient).group = builder_.group(ValueKind::kGradient, graph().value(w.weight).block);
    if (w.accumulator != kNone) builder_.update(w.accumulator, w.gradient);
  }

  Builder& builder_;
  const std::span<const ValueId> losses_;
  const std::span<WeightGradient> weights_;
  const SumFunction sum_;
  const std::vector<bool> wanted_;
  const std::vector<Uses> uses_;
  // By value of the forward pass.
  std::vector<ValueId> cotangents_, accumulators_;
  std::vector<DType> dtypes_;
};

}  // namespace

void append_backward(Builder& builder, std::span<const ValueId> losses, std::span<WeightGradient> weights,
                     SumFunction sum) {
  Backward(builder, losses, weights, sum).run();
}

void append_backward(Builder& builder, ValueId loss, std::span<WeightGradient> weights, SumFunction sum) {
  append_backward(builder, std::span(&loss, 1), weights, sum);
}

}  // namespace spillway
