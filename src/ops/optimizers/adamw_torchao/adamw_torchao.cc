#include "ops/optimizers/adamw_torchao/adamw_torchao.h"

#include "base/error.h"
#include "ops/optimizers/adamw/adamw.h"
#include "ops/optimizers/adamw/numbers.h"
#include "ops/optimizers/update.h"

namespace spillway::ops {

void adamw_torchao_cpu(const KernelArgs& args);
void adamw_torchao_cuda(const KernelArgs& args);

namespace {

StateSchema coded_states(int64_t bits) {
  const StateStorage storage = bits == 8 ? StateStorage::kCodes8 : StateStorage::kCodes4;
  StateSchema schema;
  schema.add("exp_avg", storage);
  schema.add("exp_avg_sq", storage);
  return schema;
}

bool has_codes(const OptimizerOptions& options, const Shape& weight) {
  return weight.elems() >= options.min_8bit_size && weight.elems() % kStateBlock == 0;
}

template <int kBits>
StateSchema states(const OptimizerOptions& options, const TrainedTensor& weight) {
  return has_codes(options, weight.shape) ? coded_states(kBits) : kAdamw.states(options, weight);
}

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  SPILLWAY_CHECK(inputs[update_input::kStep] != nullptr, "adamw_torchao without the number of the step");
  return infer_update("adamw_torchao", coded_states(attributes.integer("bits")), inputs, attributes);
}

// On the GPU: the numbers of the step.
int64_t cuda_workspace_bytes(TypeList, TypeList, const Attributes&) { return sizeof(AdamwNumbers); }

const OpDef kUpdate{.name = "adamw_torchao",
                    .infer = infer,
                    .cost = slice_cost,
                    .cuda_workspace_bytes = cuda_workspace_bytes,
                    .in_place = update_in_place(4),
                    .cpu = adamw_torchao_cpu,
                    .cuda = SPILLWAY_CUDA_KERNEL(adamw_torchao_cuda)};

template <int kBits>
ValueId update(Builder& builder, const UpdateOperands& operands, const OptimizerOptions& options) {
  if (!has_codes(options, builder.type(operands.weight).shape)) return kAdamw.update(builder, operands, options);
  return append_update(builder, kUpdate, operands,
                       {{"bits", int64_t{kBits}},
                        {"beta1", options.beta1},
                        {"beta2", options.beta2},
                        {"eps", options.eps},
                        {"weight_decay", options.weight_decay}});
}

}  // namespace

constexpr OptimizerDef kAdamwTorchao8{.name = "adamw_torch_8bit", .states = states<8>, .update = update<8>};
constexpr OptimizerDef kAdamwTorchao4{.name = "adamw_torch_4bit", .states = states<4>, .update = update<4>};

}  // namespace spillway::ops
