#include "ops/optimizers/lion/lion.h"

#include "ops/optimizers/lion/formula-inl.h"

namespace spillway::ops {
namespace lion_op {
namespace {

// The defaults are transformers' betas, which are Adam's and not those of the paper.
constexpr OptimizerOption kOptions[] = {mean_option("beta1", 0.9, "adam_beta1"),
                                        mean_option("beta2", 0.999, "adam_beta2"), kWeightDecay};

StateSchema states(const OptimizerOptions&, const TrainedTensor&) {
  StateSchema schema;
  schema.add("exp_avg");
  return schema;
}

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  return infer_update("lion", states({}, {}), inputs, attributes);
}

const OpDef kLionUpdate{.name = "lion",
                        .infer = infer,
                        .cost = slice_cost,
                        .in_place = update_in_place(1),
                        .cpu = lion_cpu,
                        .cuda = lion_cuda};

ValueId update(Builder& builder, const UpdateOperands& operands, const OptimizerOptions& options) {
  return append_update(builder, kLionUpdate, operands, options);
}

}  // namespace
}  // namespace lion_op

constexpr OptimizerDef kLion{
    .name = "lion", .options = lion_op::kOptions, .states = lion_op::states, .update = lion_op::update};

}  // namespace spillway::ops
