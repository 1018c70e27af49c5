#include "ops/optimizers/adagrad/adagrad.h"

#include "base/error.h"
#include "ops/optimizers/adagrad/formula-inl.h"

namespace spillway::ops {
namespace adagrad_op {
namespace {

constexpr OptimizerOption kOptions[] = {{"lr_decay"}, {"eps", 1e-10}, kWeightDecay};

StateSchema states(const OptimizerOptions&, const TrainedTensor&) {
  StateSchema schema;
  schema.add("sum");
  return schema;
}

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  SPILLWAY_CHECK(inputs[update_input::kStep] != nullptr, "adagrad without the number of the step");
  return infer_update("adagrad", states({}, {}), inputs, attributes);
}

const OpDef kUpdate{.name = "adagrad",
                    .infer = infer,
                    .cost = slice_cost,
                    .cuda_workspace_bytes = formula_bytes<AdagradFormula>,
                    .in_place = update_in_place(1),
                    .cpu = adagrad_cpu,
                    .cuda = adagrad_cuda};

ValueId update(Builder& builder, const UpdateOperands& operands, const OptimizerOptions& options) {
  return append_update(builder, kUpdate, operands, options);
}

}  // namespace
}  // namespace adagrad_op

constexpr OptimizerDef kAdagrad{
    .name = "adagrad", .options = adagrad_op::kOptions, .states = adagrad_op::states, .update = adagrad_op::update};

}  // namespace spillway::ops
