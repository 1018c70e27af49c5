#include "ops/optimizers/bf16_update.h"

#include <utility>

#include "base/error.h"

namespace spillway::ops {
namespace {

// Returns the next version of a value that the graph has made itself, which then is no version, but a value beside it.
ValueId part_from(Graph& graph, ValueId value) {
  for (auto id = static_cast<ValueId>(graph.values.size() - 1); id > value; --id) {
    if (graph.value(id).updates != value) continue;
    graph.value(id).updates = kNone;
    return id;
  }
  report_bug(__FILE__, __LINE__, "update_bf16", "an update that leaves one of its operands");
}

}  // namespace

StateSchema bf16_states(StateSchema states) {
  for (StateSpec& spec : states.values) {
    if (spec.extent == StateExtent::kElement && spec.dtype == DType::kF32) spec.dtype = DType::kBF16;
  }
  return states;
}

// To the optimizer the slice in f32 is a master that exists for the update alone: the rows of the weight become its
// rounded result.
ValueId update_bf16(Builder& builder, const OptimizerDef& optimizer, const UpdateOperands& operands,
                    const OptimizerOptions& options, const std::optional<StochasticRounding>& rounding) {
  UpdateOperands wide = operands;
  wide.master = widen_rows(builder, operands.weight, *operands.rows);
  for (ValueId& state : wide.states) {
    if (builder.type(state).dtype == DType::kBF16)
      state = widen_rows(builder, state, {0, builder.type(state).shape[0]});
  }
  ValueId next = optimizer.update(builder, wide, options);
  const ValueId master = part_from(builder.graph(), wide.master);
  for (size_t i = 0; i < wide.states.size(); ++i) {
    const ValueId state = operands.states[i];
    if (wide.states[i] == state) continue;
    (void)narrow_rows(builder, part_from(builder.graph(), wide.states[i]), state, {0, builder.type(state).shape[0]});
  }
  if (rounding) next = narrow_rows(builder, master, next, *operands.rows, rounding);
  return next;
}

}  // namespace spillway::ops
