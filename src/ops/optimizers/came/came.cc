#include "ops/optimizers/came/came.h"

#include "base/error.h"
#include "ops/optimizers/whole_matrix.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void came_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void came_cuda(const KernelArgs& args);

namespace came_op {
namespace {

constexpr OptimizerOption kOptions[] = {mean_option("beta1", 0.9, "adam_beta1"),
                                        mean_option("beta2", 0.999, "adam_beta2"),
                                        mean_option("beta3", 0.9999, "adam_beta3"),
                                        {"eps", 1e-30, "adam_epsilon"},
                                        {"eps2", 1e-16, "adam_epsilon2"},
                                        {"clip_threshold", 1, {}, 1e-9},
                                        kWeightDecay};

StateSchema states(const OptimizerOptions&, const TrainedTensor& weight) {
  StateSchema schema{.slice_unit = 0};
  schema.add("exp_avg");
  if (is_factored(weight.shape)) {
    schema.add_factored("exp_avg_sq");
    schema.add_factored("exp_avg_res");
  } else {
    schema.add("exp_avg_sq");
  }
  return schema;
}

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  SPILLWAY_CHECK(inputs[update_input::kStep] != nullptr, "came without the number of the step");
  return infer_update("came", states({}, {inputs[update_input::kWeight]->shape}), inputs, attributes);
}

const OpDef kUpdate{.name = "came",
                    .infer = infer,
                    .cost = whole_matrix_cost<3>,
                    .workspace_bytes = whole_matrix_workspace_bytes,
                    .in_place = update_in_place(5),
                    .cpu = came_cpu,
                    .cuda = came_cuda};

ValueId update(Builder& builder, const UpdateOperands& operands, const OptimizerOptions& options) {
  return append_update(builder, kUpdate, operands, options);
}

}  // namespace
}  // namespace came_op

constexpr OptimizerDef kCame{.name = "came",
                             .options = came_op::kOptions,
                             .spares_embeddings = true,
                             .states = came_op::states,
                             .update = came_op::update};

}  // namespace spillway::ops
