#include "ops/optimizers/lion_8bit/lion_8bit.h"

#include "ops/optimizers/lion/lion.h"
#include "ops/optimizers/lion_8bit/formula-inl.h"

namespace spillway::ops {
namespace lion_8bit_op {
namespace {

constexpr OptimizerOption kOptions[] = {mean_option("beta1", 0.9, "adam_beta1"),
                                        mean_option("beta2", 0.999, "adam_beta2"), kWeightDecay, kMin8bitSize};

StateSchema coded_states() {
  StateSchema schema;
  schema.add("exp_avg", StateStorage::kCodes8);
  return schema;
}

StateSchema states(const OptimizerOptions& options, const TrainedTensor& weight) {
  return has_coded_states(options, weight.shape) ? coded_states() : kLion.states(options, weight);
}

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  return infer_update("lion_8bit", coded_states(), inputs, attributes);
}

const OpDef kUpdate{.name = "lion_8bit",
                    .infer = infer,
                    .cost = slice_cost,
                    .in_place = update_in_place(2),
                    .cpu = lion_8bit_cpu,
                    .cuda = lion_8bit_cuda};

ValueId update(Builder& builder, const UpdateOperands& operands, const OptimizerOptions& options) {
  if (!has_coded_states(options, builder.type(operands.weight).shape)) return kLion.update(builder, operands, options);
  return append_update(builder, kUpdate, operands, options);
}

}  // namespace
}  // namespace lion_8bit_op

constexpr OptimizerDef kLion8bit{.name = "lion_8bit",
                                 .options = lion_8bit_op::kOptions,
                                 .keeps_embeddings_in_f32 = true,
                                 .states = lion_8bit_op::states,
                                 .update = lion_8bit_op::update};

}  // namespace spillway::ops
