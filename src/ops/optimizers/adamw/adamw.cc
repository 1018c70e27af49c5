#include "ops/optimizers/adamw/adamw.h"

#include "base/error.h"
#include "ops/optimizers/adamw/numbers.h"
#include "ops/optimizers/update.h"

namespace spillway::ops {

void adamw_cpu(const KernelArgs& args);
void adamw_cuda(const KernelArgs& args);

namespace {

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

// On the GPU: the numbers of the step.
int64_t cuda_workspace_bytes(TypeList, TypeList, const Attributes&) { return sizeof(AdamwNumbers); }

const OpDef kAdamwUpdate{.name = "adamw",
                         .infer = infer,
                         .cost = slice_cost,
                         .cuda_workspace_bytes = cuda_workspace_bytes,
                         .in_place = update_in_place(2),
                         .cpu = adamw_cpu,
                         .cuda = SPILLWAY_CUDA_KERNEL(adamw_cuda)};

ValueId update(Builder& builder, const UpdateOperands& operands, const OptimizerOptions& options) {
  return append_update(builder, kAdamwUpdate, operands,
                       {{"beta1", options.beta1},
                        {"beta2", options.beta2},
                        {"eps", options.eps},
                        {"weight_decay", options.weight_decay}});
}

}  // namespace

constexpr OptimizerDef kAdamw{.name = "adamw", .states = states, .update = update};

}  // namespace spillway::ops
