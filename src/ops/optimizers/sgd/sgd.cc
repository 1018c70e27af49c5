#include "ops/optimizers/sgd/sgd.h"

#include "base/error.h"
#include "ops/optimizers/sgd/formula-inl.h"

namespace spillway::ops {
namespace sgd_op {
namespace {

constexpr OptimizerOption kOptions[] = {
    mean_option("momentum", 0), {"dampening"}, flag_option("nesterov"), kWeightDecay};

// Checks torch's rule.
std::string_view conflict(const OptimizerOptions& options) {
  const bool fits = options.real("nesterov") == 0 || (options.real("momentum") > 0 && options.real("dampening") == 0);
  return fits ? "" : "momentum above 0 and no dampening beside nesterov";
}

StateSchema states(const OptimizerOptions& options, const TrainedTensor&) {
  StateSchema schema;
  if (options.real("momentum") != 0) schema.add("momentum_buffer");
  return schema;
}

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  SPILLWAY_CHECK(inputs[update_input::kStep] != nullptr, "sgd without the number of the step");
  return infer_update("sgd", states(attributes, {}), inputs, attributes);
}

const OpDef kSgdUpdate{.name = "sgd",
                       .infer = infer,
                       .cost = slice_cost,
                       .in_place = update_in_place(1),
                       .cpu = sgd_cpu,
                       .cuda = sgd_cuda};

ValueId update(Builder& builder, const UpdateOperands& operands, const OptimizerOptions& options) {
  return append_update(builder, kSgdUpdate, operands, options);
}

}  // namespace
}  // namespace sgd_op

constexpr OptimizerDef kSgd{.name = "sgd",
                            .options = sgd_op::kOptions,
                            .conflict = sgd_op::conflict,
                            .states = sgd_op::states,
                            .update = sgd_op::update};

}  // namespace spillway::ops
