#include "ops/optimizers/adafactor/adafactor.h"

#include "base/error.h"
#include "ops/optimizers/whole_matrix.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void adafactor_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void adafactor_cuda(const KernelArgs& args);

namespace adafactor_op {
namespace {

constexpr OptimizerOption kOptions[] = {
    {"decay_rate", -0.8, {}, -10, 0}, {"eps", 1e-30}, {"clip_threshold", 1, {}, 1e-9}, kWeightDecay};

StateSchema states(const OptimizerOptions&, const TrainedTensor& weight) {
  StateSchema schema{.slice_unit = 0};
  if (is_factored(weight.shape)) {
    schema.add_factored("exp_avg_sq");
  } else {
    schema.add("exp_avg_sq");
  }
  return schema;
}

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  SPILLWAY_CHECK(inputs[update_input::kStep] != nullptr, "adafactor without the number of the step");
  return infer_update("adafactor", states({}, {inputs[update_input::kWeight]->shape}), inputs, attributes);
}

const OpDef kUpdate{.name = "adafactor",
                    .infer = infer,
                    .cost = whole_matrix_cost<3>,
                    .workspace_bytes = whole_matrix_workspace_bytes,
                    .in_place = update_in_place(2),
                    .cpu = adafactor_cpu,
                    .cuda = adafactor_cuda};

ValueId update(Builder& builder, const UpdateOperands& operands, const OptimizerOptions& options) {
  return append_update(builder, kUpdate, operands, options);
}

}  // namespace
}  // namespace adafactor_op

constexpr OptimizerDef kAdafactor{.name = "adafactor",
                                  .options = adafactor_op::kOptions,
                                  .states = adafactor_op::states,
                                  .update = adafactor_op::update};

}  // namespace spillway::ops
