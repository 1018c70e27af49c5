#include "ops/optimizers/stable_adamw/stable_adamw.h"

#include "base/error.h"
#include "ops/optimizers/whole_matrix.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void stable_adamw_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void stable_adamw_cuda(const KernelArgs& args);

namespace stable_adamw_op {
namespace {

constexpr OptimizerOption kOptions[] = {mean_option("beta1", 0.9, "adam_beta1"),
                                        mean_option("beta2", 0.999, "adam_beta2"),
                                        {"eps", 1e-8, "adam_epsilon", 1e-18},
                                        kWeightDecay};

StateSchema states(const OptimizerOptions&, const TrainedTensor&) {
  StateSchema schema{.slice_unit = 0};
  schema.add("exp_avg");
  schema.add("exp_avg_sq");
  return schema;
}

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  SPILLWAY_CHECK(inputs[update_input::kStep] != nullptr, "stable_adamw without the number of the step");
  return infer_update("stable_adamw", states({}, {}), inputs, attributes);
}

// Moments written in the first of two passes are read in the second.
Cost cost(TypeList inputs, TypeList outputs, const Attributes& attributes) {
  Cost result = slice_cost(inputs, outputs, attributes);
  for (const size_t state : {update_input::kStates, update_input::kStates + 1})
    result.bytes += static_cast<double>(inputs[state]->bytes());
  return result;
}

const OpDef kUpdate{.name = "stable_adamw",
                    .infer = infer,
                    .cost = cost,
                    .workspace_bytes = whole_matrix_workspace_bytes,
                    .in_place = update_in_place(2),
                    .cpu = stable_adamw_cpu,
                    .cuda = stable_adamw_cuda};

ValueId update(Builder& builder, const UpdateOperands& operands, const OptimizerOptions& options) {
  return append_update(builder, kUpdate, operands, options);
}

}  // namespace
}  // namespace stable_adamw_op

constexpr OptimizerDef kStableAdamw{.name = "stable_adamw",
                                    .options = stable_adamw_op::kOptions,
                                    .states = stable_adamw_op::states,
                                    .update = stable_adamw_op::update};

}  // namespace spillway::ops
