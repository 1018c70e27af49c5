#include "ops/optimizers/adamw_torchao/adamw_torchao.h"

#include "base/error.h"
#include "ops/optimizers/adamw/adamw.h"
#include "ops/optimizers/adamw_torchao/formula-inl.h"

namespace spillway::ops {
namespace adamw_torchao_op {
namespace {

constexpr OptimizerOption kOptions[] = {mean_option("beta1", 0.9, "adam_beta1"),
                                        mean_option("beta2", 0.999, "adam_beta2"),
                                        {"eps", 1e-8, "adam_epsilon"},
                                        kWeightDecay,
                                        kMin8bitSize};

StateSchema coded_states(int64_t bits) {
  const StateStorage storage = bits == 8 ? StateStorage::kCodes8 : StateStorage::kCodes4;
  StateSchema schema;
  schema.add("exp_avg", storage);
  schema.add("exp_avg_sq", storage);
  return schema;
}

bool has_codes(const OptimizerOptions& options, const Shape& weight) {
  return has_coded_states(options, weight) && weight.elems() % kStateBlock == 0;
}

template <int kBits>
StateSchema states(const OptimizerOptions& options, const TrainedTensor& weight) {
  return has_codes(options, weight.shape) ? coded_states(kBits) : kAdamw.states(options, weight);
}

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  SPILLWAY_CHECK(inputs[update_input::kStep] != nullptr, "adamw_torchao without the number of the step");
  return infer_update("adamw_torchao", coded_states(attributes.integer("bits")), inputs, attributes);
}

const OpDef kUpdate{.name = "adamw_torchao",
                    .infer = infer,
                    .cost = slice_cost,
                    .cuda_workspace_bytes = formula_bytes<AdamwFormula>,
                    .in_place = update_in_place(4),
                    .cpu = adamw_torchao_cpu,
                    .cuda = adamw_torchao_cuda};

template <int kBits>
ValueId update(Builder& builder, const UpdateOperands& operands, const OptimizerOptions& options) {
  if (!has_codes(options, builder.type(operands.weight).shape)) return kAdamw.update(builder, operands, options);
  OptimizerOptions numbers = options;
  numbers.add("bits", int64_t{kBits});
  return append_update(builder, kUpdate, operands, std::move(numbers));
}

}  // namespace
}  // namespace adamw_torchao_op

constexpr OptimizerDef kAdamwTorchao8{.name = "adamw_torch_8bit",
                                      .options = adamw_torchao_op::kOptions,
                                      .states = adamw_torchao_op::states<8>,
                                      .update = adamw_torchao_op::update<8>};
constexpr OptimizerDef kAdamwTorchao4{.name = "adamw_torch_4bit",
                                      .options = adamw_torchao_op::kOptions,
                                      .states = adamw_torchao_op::states<4>,
                                      .update = adamw_torchao_op::update<4>};

}  // namespace spillway::ops
