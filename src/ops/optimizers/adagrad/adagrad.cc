#include "ops/optimizers/adagrad/adagrad.h"

#include "base/error.h"
#include "ops/optimizers/adagrad/numbers.h"
#include "ops/optimizers/update.h"

namespace spillway::ops {

void adagrad_cpu(const KernelArgs& args);
void adagrad_cuda(const KernelArgs& args);

namespace {

constexpr OptimizerOption kOptions[] = {{"lr_decay"}, {"eps", 1e-10}, kWeightDecay};

StateSchema states(const OptimizerOptions&, const TrainedTensor&) {
  StateSchema schema;
  schema.add("sum");
  return schema;
}

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  SPILLWAY_CHECK(inputs[update_input::kStep] != nullptr, "adagrad without the number of the step");
  return infer_update("adagrad", states({}, {}), inputs, attributes);
}

// Returns the bytes of the numbers of the step on the GPU.
int64_t cuda_workspace_bytes(TypeList, TypeList, const Attributes&) { return sizeof(AdagradNumbers); }

const OpDef kUpdate{.name = "adagrad",
                    .infer = infer,
                    .cost = slice_cost,
                    .cuda_workspace_bytes = cuda_workspace_bytes,
                    .in_place = update_in_place(1),
                    .cpu = adagrad_cpu,
                    .cuda = SPILLWAY_CUDA_KERNEL(adagrad_cuda)};

ValueId update(Builder& builder, const UpdateOperands& operands, const OptimizerOptions& options) {
  return append_update(builder, kUpdate, operands, options);
}

}  // namespace

constexpr OptimizerDef kAdagrad{.name = "adagrad", .options = kOptions, .states = states, .update = update};

}  // namespace spillway::ops
