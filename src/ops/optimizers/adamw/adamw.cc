#include "ops/optimizers/adamw/adamw.h"

#include "base/error.h"
#include "ops/optimizers/adamw/formula-inl.h"

namespace spillway::ops {
namespace adamw_op {
namespace {

constexpr OptimizerOption kOptions[] = {mean_option("beta1", 0.9, "adam_beta1"),
                                        mean_option("beta2", 0.999, "adam_beta2"),
                                        {"eps", 1e-8, "adam_epsilon"},
                                        kWeightDecay};

// The defaults of torch-optimi, which axolotl leaves as they are unless the config has both betas, or adam_epsilon.
constexpr OptimizerOption kOptimiOptions[] = {mean_option("beta1", 0.9, "adam_beta1"),
                                              mean_option("beta2", 0.99, "adam_beta2"),
                                              {"eps", 1e-6, "adam_epsilon"},
                                              kWeightDecay};

StateSchema states(const OptimizerOptions&, const TrainedTensor&) {
  StateSchema schema;
  schema.add("exp_avg");
  schema.add("exp_avg_sq");
  return schema;
}

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  SPILLWAY_CHECK(inputs[update_input::kStep] != nullptr, "adamw without the number of the step");
  return infer_update("adamw", states({}, {}), inputs, attributes);
}

const OpDef kAdamwUpdate{.name = "adamw",
                         .infer = infer,
                         .cost = slice_cost,
                         .cuda_workspace_bytes = formula_bytes<AdamwFormula>,
                         .in_place = update_in_place(2),
                         .cpu = adamw_cpu,
                         .cuda = adamw_cuda};

ValueId update(Builder& builder, const UpdateOperands& operands, const OptimizerOptions& options) {
  return append_update(builder, kAdamwUpdate, operands, options);
}

}  // namespace
}  // namespace adamw_op

constexpr OptimizerDef kAdamw{
    .name = "adamw", .options = adamw_op::kOptions, .states = adamw_op::states, .update = adamw_op::update};
constexpr OptimizerDef kOptimiAdamw{.name = "optimi_adamw",
                                    .options = adamw_op::kOptimiOptions,
                                    .spares_embeddings = true,
                                    .states = adamw_op::states,
                                    .update = adamw_op::update};

}  // namespace spillway::ops
