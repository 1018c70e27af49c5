#include "ops/optimizers/rmsprop/rmsprop.h"

#include "ops/optimizers/rmsprop/formula-inl.h"

namespace spillway::ops {
namespace rmsprop_op {
namespace {

constexpr OptimizerOption kOptions[] = {
    mean_option("alpha", 0.99), {"eps", 1e-8}, mean_option("momentum", 0), flag_option("centered"), kWeightDecay};

StateSchema states(const OptimizerOptions& options, const TrainedTensor&) {
  StateSchema schema;
  schema.add("square_avg");
  if (options.real("momentum") != 0) schema.add("momentum_buffer");
  if (options.real("centered") != 0) schema.add("grad_avg");
  return schema;
}

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  return infer_update("rmsprop", states(attributes, {}), inputs, attributes);
}

const OpDef kUpdate{.name = "rmsprop",
                    .infer = infer,
                    .cost = slice_cost,
                    .in_place = update_in_place(3),
                    .cpu = rmsprop_cpu,
                    .cuda = rmsprop_cuda};

ValueId update(Builder& builder, const UpdateOperands& operands, const OptimizerOptions& options) {
  return append_update(builder, kUpdate, operands, options);
}

}  // namespace
}  // namespace rmsprop_op

constexpr OptimizerDef kRmsprop{
    .name = "rmsprop", .options = rmsprop_op::kOptions, .states = rmsprop_op::states, .update = rmsprop_op::update};

}  // namespace spillway::ops
