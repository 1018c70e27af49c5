#include "graph/autodiff.h"

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

}  // namespace

ValueId VjpContext::take_addend(int i) {
  ValueId& sum = nth(cotangents_, input(i));
  return std::exchange(sum, kNone);
}

void VjpContext::add(int i, ValueId cotangent) {
  ValueId& sum = nth(cotangents_, input(i));
  sum = sum == kNone ? cotangent : sum_(builder_, sum, cotangent);
}

void append_backward(Builder& builder, ValueId loss, std::span<WeightGradient> weights, SumFunction sum) {
  Graph& graph = builder.graph();
  const std::vector<bool> wanted = values_that_depend_on(graph, weights);
  std::vector<ValueId> cotangents(graph.values.size(), kNone);
  std::vector<DType> dtypes;
  for (const Value& value : graph.values) dtypes.push_back(value.type.dtype);
  for (const WeightGradient& w : weights) {
    nth(dtypes, w.weight) = w.dtype;
    nth(cotangents, w.weight) = w.accumulator;
  }

  builder.begin_section(backward_section());
  const OpId last = graph.value(loss).producer;
  for (OpId id = last; id >= 0; --id) {
    const Operation& op = graph.op(id);
    bool flows = id == last;
    for (const ValueId output : op.outputs) flows = flows || nth(cotangents, output) != kNone;
    bool leads_to_weight = false;
    for (const ValueId input : op.inputs) leads_to_weight = leads_to_weight || (input != kNone && nth(wanted, input));
    if (!flows || !leads_to_weight || op.def->stops_gradients) continue;
    if (!op.def->vjp) {
      throw input_error(op.def->name,
                        "expected a differentiable operation on the way to a trainable weight, got {}; "
                        "freeze what it depends on",
                        graph.value(op.outputs[0]).name);
    }
    builder.set_block(op.block);
    VjpContext context(builder, cotangents, wanted, dtypes, sum, id);
    op.def->vjp(context);
  }
  builder.set_block(kNone);

  for (WeightGradient& w : weights) {
    w.gradient = nth(cotangents, w.weight);
    if (w.gradient == w.accumulator) {
      throw input_error(graph.value(w.weight).name, "expected a weight that the loss depends on; freeze it");
    }
    graph.value(w.gradient).kind = ValueKind::kGradient;
    graph.value(w.gradient).group = builder.group(ValueKind::kGradient, graph.value(w.weight).block);
    if (w.accumulator != kNone) builder.update(w.accumulator, w.gradient);
  }
}

}  // namespace spillway
