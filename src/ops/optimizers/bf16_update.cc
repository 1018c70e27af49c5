#include "ops/optimizers/bf16_update.h"

#include <utility>

namespace spillway::ops {

StateSchema bf16_states(StateSchema states) {
  for (StateSpec& spec : states.values) {
    if (spec.extent == StateExtent::kElement && spec.dtype == DType::kF32) spec.dtype = DType::kBF16;
  }
  return states;
}

// To the optimizer the slice in f32 is a master that is there for the update alone: the rows of the weight become what
// it rounds to.
ValueId update_bf16(Builder& builder, const OptimizerDef& optimizer, const UpdateOperands& operands,
                    const OptimizerOptions& options, const std::optional<StochasticRounding>& rounding) {
  UpdateOperands wide = operands;
  wide.master = widen_rows(builder, operands.weight, *operands.rows);
  for (ValueId& state : wide.states) {
    if (builder.type(state).dtype == DType::kBF16)
      state = widen_rows(builder, state, {0, builder.type(state).shape[0]});
  }
  ValueId next = optimizer.update(builder, wide, options);
  const ValueId master = builder.part_from(wide.master);
  for (size_t i = 0; i < wide.states.size(); ++i) {
    const ValueId state = operands.states[i];
    if (wide.states[i] == state) continue;
    (void)narrow_rows(builder, builder.part_from(wide.states[i]), state, {0, builder.type(state).shape[0]});
  }
  if (rounding) next = narrow_rows(builder, master, next, *operands.rows, rounding);
  return next;
}

}  // namespace spillway::ops
