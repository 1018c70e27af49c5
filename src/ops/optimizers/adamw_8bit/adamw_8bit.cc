#include "ops/optimizers/adamw_8bit/adamw_8bit.h"

#include "base/error.h"
#include "ops/optimizers/adamw/adamw.h"
#include "ops/optimizers/adamw_8bit/formula-inl.h"

namespace spillway::ops {
namespace adamw_8bit_op {
namespace {

constexpr OptimizerOption kOptions[] = {mean_option("beta1", 0.9, "adam_beta1"),
                                        mean_option("beta2", 0.999, "adam_beta2"),
                                        {"eps", 1e-8, "adam_epsilon"},
                                        kWeightDecay,
                                        kMin8bitSize};

StateSchema coded_states() {
  StateSchema schema;
  schema.add("exp_avg", StateStorage::kCodes8);
  schema.add("exp_avg_sq", StateStorage::kCodes8);
  return schema;
}

StateSchema states(const OptimizerOptions& options, const TrainedTensor& weight) {
  return has_coded_states(options, weight.shape) ? coded_states() : kAdamw.states(options, weight);
}

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  SPILLWAY_CHECK(inputs[update_input::kStep] != nullptr, "adamw_8bit without the number of the step");
  return infer_update("adamw_8bit", coded_states(), inputs, attributes);
}

const OpDef kUpdate{.name = "adamw_8bit",
                    .infer = infer,
                    .cost = slice_cost,
                    .cuda_workspace_bytes = formula_bytes<Adamw8bitFormula>,
                    .in_place = update_in_place(4),
                    .cpu = adamw_8bit_cpu,
                    .cuda = adamw_8bit_cuda};

ValueId update(Builder& builder, const UpdateOperands& operands, const OptimizerOptions& options) {
  if (!has_coded_states(options, builder.type(operands.weight).shape)) return kAdamw.update(builder, operands, options);
  return append_update(builder, kUpdate, operands, options);
}

}  // namespace
}  // namespace adamw_8bit_op

constexpr OptimizerDef kAdamw8bit{.name = "adamw_8bit",
                                  .options = adamw_8bit_op::kOptions,
                                  .keeps_embeddings_in_f32 = true,
                                  .states = adamw_8bit_op::states,
                                  .update = adamw_8bit_op::update};

}  // namespace spillway::ops
