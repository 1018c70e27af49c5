#include "ops/optimizers/sgd/sgd.h"

#include "ops/optimizers/update.h"

namespace spillway::ops {

void sgd_cpu(const KernelArgs& args);
void sgd_cuda(const KernelArgs& args);

namespace {

StateSchema states(const OptimizerOptions& options, const TrainedTensor&) {
  StateSchema schema;
  if (options.momentum != 0) schema.add("momentum_buffer");
  return schema;
}

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  return infer_update("sgd", states({.momentum = attributes.real("momentum")}, {}), inputs, attributes);
}

const OpDef kSgdUpdate{.name = "sgd",
                       .infer = infer,
                       .cost = slice_cost,
                       .in_place = update_in_place(1),
                       .cpu = sgd_cpu,
                       .cuda = SPILLWAY_CUDA_KERNEL(sgd_cuda)};

ValueId update(Builder& builder, const UpdateOperands& operands, const OptimizerOptions& options) {
  return append_update(builder, kSgdUpdate, operands,
                       {{"momentum", options.momentum}, {"weight_decay", options.weight_decay}});
}

}  // namespace

constexpr OptimizerDef kSgd{.name = "sgd", .states = states, .update = update};

}  // namespace spillway::ops
