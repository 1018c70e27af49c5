#include "ops/optimizers/adamw_8bit/adamw_8bit.h"

#include "base/error.h"
#include "ops/optimizers/adamw/adamw.h"
#include "ops/optimizers/adamw_8bit/numbers.h"
#include "ops/optimizers/update.h"

namespace spillway::ops {

void adamw_8bit_cpu(const KernelArgs& args);
void adamw_8bit_cuda(const KernelArgs& args);

namespace {

StateSchema coded_states() {
  StateSchema schema;
  schema.add("exp_avg", StateStorage::kCodes8);
  schema.add("exp_avg_sq", StateStorage::kCodes8);
  return schema;
}

bool has_codes(const OptimizerOptions& options, const Shape& weight) { return weight.elems() >= options.min_8bit_size; }

StateSchema states(const OptimizerOptions& options, const TrainedTensor& weight) {
  return has_codes(options, weight.shape) ? coded_states() : kAdamw.states(options, weight);
}

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  SPILLWAY_CHECK(inputs[update_input::kStep] != nullptr, "adamw_8bit without the number of the step");
  return infer_update("adamw_8bit", coded_states(), inputs, attributes);
}

// On the GPU: the numbers of the step.
int64_t cuda_workspace_bytes(TypeList, TypeList, const Attributes&) { return sizeof(Adamw8bitNumbers); }

const OpDef kUpdate{.name = "adamw_8bit",
                    .infer = infer,
                    .cost = slice_cost,
                    .cuda_workspace_bytes = cuda_workspace_bytes,
                    .in_place = update_in_place(4),
                    .cpu = adamw_8bit_cpu,
                    .cuda = SPILLWAY_CUDA_KERNEL(adamw_8bit_cuda)};

ValueId update(Builder& builder, const UpdateOperands& operands, const OptimizerOptions& options) {
  if (!has_codes(options, builder.type(operands.weight).shape)) return kAdamw.update(builder, operands, options);
  return append_update(builder, kUpdate, operands,
                       {{"beta1", options.beta1},
                        {"beta2", options.beta2},
                        {"eps", options.eps},
                        {"weight_decay", options.weight_decay}});
}

}  // namespace

constexpr OptimizerDef kAdamw8bit{.name = "adamw_8bit", .states = states, .update = update};

}  // namespace spillway::ops
