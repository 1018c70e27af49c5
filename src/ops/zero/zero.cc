#include "ops/zero/zero.h"

#include "backend/kernel.h"
#include "ops/check.h"

namespace spillway::ops {

void zero_cpu(const KernelArgs& args);
void zero_cuda(const KernelArgs& args);

namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes&) { return {*inputs[0]}; }
Cost cost(TypeList, TypeList outputs, const Attributes&) { return {.bytes = static_cast<double>(outputs[0]->bytes())}; }

const OpDef kZero{.name = "zero",
                  .infer = infer,
                  .cost = cost,
                  .in_place = {{0, 0}},
                  .cpu = zero_cpu,
                  .cuda = SPILLWAY_CUDA_KERNEL(zero_cuda)};

}  // namespace

ValueId zero(Builder& builder, ValueId x) { return builder.append_one(kZero, {x}); }

}  // namespace spillway::ops
