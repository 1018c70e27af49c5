#include "ops/swiglu/swiglu.h"

#include "backend/kernel.h"
#include "base/index.h"
#include "graph/autodiff.h"
#include "ops/check.h"

namespace spillway::ops {

void swiglu_cpu(const KernelArgs& args);
void swiglu_cuda(const KernelArgs& args);
void swiglu_grad_cpu(const KernelArgs& args);
void swiglu_grad_cuda(const KernelArgs& args);

namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes&) {
  expect_real("swiglu", "gate", *inputs[0]);
  expect_same("swiglu", "up", *inputs[1], *inputs[0]);
  return {*inputs[0]};
}

// Inputs gate, up, dy; outputs dgate, dup.
std::vector<ValueType> infer_grad(TypeList inputs, const Attributes&) {
  expect_real("swiglu_grad", "gate", *inputs[0]);
  expect_same("swiglu_grad", "up", *inputs[1], *inputs[0]);
  expect_same("swiglu_grad", "dy", *inputs[2], *inputs[0]);
  return {*inputs[0], *inputs[0]};
}

const OpDef kSwigluGrad{.name = "swiglu_grad",
                        .infer = infer_grad,
                        .cost = memory_cost,
                        .in_place = {{0, 0}, {1, 1}, {0, 2}, {1, 2}},
                        .cpu = swiglu_grad_cpu,
                        .cuda = SPILLWAY_CUDA_KERNEL(swiglu_grad_cuda)};

void vjp(VjpContext& context) {
  const std::vector<ValueId> gradients =
      context.builder().append(kSwigluGrad, {context.input(0), context.input(1), context.cotangent(0)});
  for (const int i : {0, 1}) {
    if (context.wants(i)) context.add(i, nth(gradients, i));
  }
}

const OpDef kSwiglu{.name = "swiglu",
                    .infer = infer,
                    .vjp = vjp,
                    .cost = memory_cost,
                    .in_place = {{0, 0}, {0, 1}},
                    .cpu = swiglu_cpu,
                    .cuda = SPILLWAY_CUDA_KERNEL(swiglu_cuda)};

}  // namespace

ValueId swiglu(Builder& builder, ValueId gate, ValueId up) { return builder.append_one(kSwiglu, {gate, up}); }

}  // namespace spillway::ops
