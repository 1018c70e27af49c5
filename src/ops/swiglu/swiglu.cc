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
void geglu_cpu(const KernelArgs& args);
void geglu_cuda(const KernelArgs& args);
void geglu_grad_cpu(const KernelArgs& args);
void geglu_grad_cuda(const KernelArgs& args);

namespace {

std::vector<ValueType> infer_as(std::string_view name, TypeList inputs) {
  expect_real(name, "gate", *inputs[0]);
  expect_same(name, "up", *inputs[1], *inputs[0]);
  return {*inputs[0]};
}

// Takes inputs gate, up, dy; outputs are dgate, dup.
std::vector<ValueType> infer_grad(TypeList inputs, const Attributes&) {
  constexpr std::string_view kName = "gradient of a gated activation";
  expect_same(kName, "dy", *inputs[2], infer_as(kName, inputs)[0]);
  return {*inputs[0], *inputs[0]};
}

void append_gradients(VjpContext& context, const OpDef& def) {
  const std::vector<ValueId> gradients =
      context.builder().append(def, {context.input(0), context.input(1), context.cotangent(0)});
  for (const int i : {0, 1}) {
    if (context.wants(i)) context.add(i, nth(gradients, i));
  }
}

const OpDef kSwigluGrad{.name = "swiglu_grad",
                        .infer = infer_grad,
                        .cost = memory_cost,
                        .in_place = {{0, 0}, {1, 1}, {0, 2}, {1, 2}},
                        .cpu = swiglu_grad_cpu,
                        .cuda = SPILLWAY_CUDA_KERNEL(swiglu_grad_cuda)};

void swiglu_vjp(VjpContext& context) { append_gradients(context, kSwigluGrad); }

const OpDef kSwiglu{.name = "swiglu",
                    .infer = [](TypeList inputs, const Attributes&) { return infer_as("swiglu", inputs); },
                    .vjp = swiglu_vjp,
                    .cost = memory_cost,
                    .in_place = {{0, 0}, {0, 1}},
                    .cpu = swiglu_cpu,
                    .cuda = SPILLWAY_CUDA_KERNEL(swiglu_cuda)};

const OpDef kGegluGrad{.name = "geglu_grad",
                       .infer = infer_grad,
                       .cost = memory_cost,
                       .in_place = {{0, 0}, {1, 1}, {0, 2}, {1, 2}},
                       .cpu = geglu_grad_cpu,
                       .cuda = SPILLWAY_CUDA_KERNEL(geglu_grad_cuda)};

void geglu_vjp(VjpContext& context) { append_gradients(context, kGegluGrad); }

const OpDef kGeglu{.name = "geglu",
                   .infer = [](TypeList inputs, const Attributes&) { return infer_as("geglu", inputs); },
                   .vjp = geglu_vjp,
                   .cost = memory_cost,
                   .in_place = {{0, 0}, {0, 1}},
                   .cpu = geglu_cpu,
                   .cuda = SPILLWAY_CUDA_KERNEL(geglu_cuda)};

}  // namespace

ValueId swiglu(Builder& builder, ValueId gate, ValueId up) { return builder.append_one(kSwiglu, {gate, up}); }
ValueId geglu(Builder& builder, ValueId gate, ValueId up) { return builder.append_one(kGeglu, {gate, up}); }

}  // namespace spillway::ops
