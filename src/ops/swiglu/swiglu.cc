#include "ops/swiglu/swiglu.h"

#include "backend/kernel.h"
#include "base/index.h"
#include "graph/autodiff.h"
#include "ops/check.h"
#include "ops/optional_kernel.h"
#include "ops/swiglu/operands.h"

namespace spillway::ops {

void swiglu_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void swiglu_cuda(const KernelArgs& args);
void swiglu_grad_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void swiglu_grad_cuda(const KernelArgs& args);
void geglu_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void geglu_cuda(const KernelArgs& args);
void geglu_grad_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void geglu_grad_cuda(const KernelArgs& args);
void glu_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void glu_cuda(const KernelArgs& args);
void glu_grad_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void glu_grad_cuda(const KernelArgs& args);
void bilinear_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void bilinear_cuda(const KernelArgs& args);
void bilinear_grad_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void bilinear_grad_cuda(const KernelArgs& args);

namespace swiglu_op {
namespace {

std::vector<ValueType> infer_as(std::string_view name, TypeList inputs) {
  expect_real(name, "gate", *inputs[kGate]);
  expect_same(name, "up", *inputs[kUp], *inputs[kGate]);
  return {*inputs[kGate]};
}

// Returns outputs dgate, dup.
std::vector<ValueType> infer_grad(TypeList inputs, const Attributes&) {
  constexpr std::string_view kName = "gradient of a gated activation";
  expect_same(kName, "dy", *inputs[kDy], infer_as(kName, inputs)[0]);
  return {*inputs[kGate], *inputs[kGate]};
}

void append_gradients(VjpContext& context, const OpDef& def) {
  const std::vector<ValueId> gradients =
      context.builder().append(def, {context.input(kGate), context.input(kUp), context.cotangent(0)});
  for (const int i : {kGate, kUp}) {
    if (context.wants(i)) context.add(i, nth(gradients, i));
  }
}

const OpDef kSwigluGrad{.name = "swiglu_grad",
                        .infer = infer_grad,
                        .cost = memory_cost,
                        .in_place = {{0, kGate}, {1, kUp}, {0, kDy}, {1, kDy}},
                        .cpu = swiglu_grad_cpu,
                        .cuda = swiglu_grad_cuda};

void swiglu_vjp(VjpContext& context) { append_gradients(context, kSwigluGrad); }

const OpDef kSwiglu{.name = "swiglu",
                    .infer = [](TypeList inputs, const Attributes&) { return infer_as("swiglu", inputs); },
                    .vjp = swiglu_vjp,
                    .cost = memory_cost,
                    .in_place = {{0, kGate}, {0, kUp}},
                    .cpu = swiglu_cpu,
                    .cuda = swiglu_cuda};

const OpDef kGegluGrad{.name = "geglu_grad",
                       .infer = infer_grad,
                       .cost = memory_cost,
                       .in_place = {{0, kGate}, {1, kUp}, {0, kDy}, {1, kDy}},
                       .cpu = geglu_grad_cpu,
                       .cuda = geglu_grad_cuda};

void geglu_vjp(VjpContext& context) { append_gradients(context, kGegluGrad); }

const OpDef kGeglu{.name = "geglu",
                   .infer = [](TypeList inputs, const Attributes&) { return infer_as("geglu", inputs); },
                   .vjp = geglu_vjp,
                   .cost = memory_cost,
                   .in_place = {{0, kGate}, {0, kUp}},
                   .cpu = geglu_cpu,
                   .cuda = geglu_cuda};

const OpDef kGluGrad{.name = "glu_grad",
                     .infer = infer_grad,
                     .cost = memory_cost,
                     .in_place = {{0, kGate}, {1, kUp}, {0, kDy}, {1, kDy}},
                     .cpu = glu_grad_cpu,
                     .cuda = glu_grad_cuda};

void glu_vjp(VjpContext& context) { append_gradients(context, kGluGrad); }

const OpDef kGlu{.name = "glu",
                 .infer = [](TypeList inputs, const Attributes&) { return infer_as("glu", inputs); },
                 .vjp = glu_vjp,
                 .cost = memory_cost,
                 .in_place = {{0, kGate}, {0, kUp}},
                 .cpu = glu_cpu,
                 .cuda = glu_cuda};

const OpDef kBilinearGrad{.name = "bilinear_grad",
                          .infer = infer_grad,
                          .cost = memory_cost,
                          .in_place = {{0, kGate}, {1, kUp}, {0, kDy}, {1, kDy}},
                          .cpu = bilinear_grad_cpu,
                          .cuda = bilinear_grad_cuda};

void bilinear_vjp(VjpContext& context) { append_gradients(context, kBilinearGrad); }

const OpDef kBilinear{.name = "bilinear",
                      .infer = [](TypeList inputs, const Attributes&) { return infer_as("bilinear", inputs); },
                      .vjp = bilinear_vjp,
                      .cost = memory_cost,
                      .in_place = {{0, kGate}, {0, kUp}},
                      .cpu = bilinear_cpu,
                      .cuda = bilinear_cuda};

}  // namespace
}  // namespace swiglu_op

ValueId swiglu(Builder& builder, ValueId gate, ValueId up) {
  return builder.append_one(swiglu_op::kSwiglu, {gate, up});
}
ValueId geglu(Builder& builder, ValueId gate, ValueId up) { return builder.append_one(swiglu_op::kGeglu, {gate, up}); }
ValueId glu(Builder& builder, ValueId gate, ValueId up) { return builder.append_one(swiglu_op::kGlu, {gate, up}); }
ValueId bilinear(Builder& builder, ValueId gate, ValueId up) {
  return builder.append_one(swiglu_op::kBilinear, {gate, up});
}

}  // namespace spillway::ops
