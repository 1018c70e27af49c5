#include "ops/linear_distillation/linear_distillation.h"

#include <utility>

#include "backend/kernel.h"
#include "graph/autodiff.h"
#include "ops/check.h"
#include "ops/linear_distillation/layout.h"
#include "ops/logits/cost.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void linear_distillation_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void linear_distillation_cuda(const KernelArgs& args);

namespace linear_distillation_op {
namespace {

constexpr std::string_view kName = "linear_distillation";

LossGradients gradients_of(const Attributes& attributes) {
  return static_cast<LossGradients>(attributes.integer("gradients"));
}

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  const ValueType &x = *inputs[kX], &w = *inputs[kW], &teacher = *inputs[kTeacherX];
  expect_real(kName, "x", x);
  expect_rank(kName, "x", x, 2);
  expect_rank(kName, "teacher_x", teacher, 2);
  expect_same(kName, "w", w, {x.dtype, {w.shape[0], x.shape[1]}});
  expect_same(kName, "teacher_x", teacher, {x.dtype, {x.shape[0], teacher.shape[1]}, x.axis});
  expect_same(kName, "teacher_w", *inputs[kTeacherW], {x.dtype, {w.shape[0], teacher.shape[1]}});
  expect_row_numbers(kName, "labels", *inputs[kLabels], DType::kI32, x);
  expect_scalar(kName, "scale", *inputs[kScale], DType::kF32);
  const ValueType sum{DType::kF32, {1}};
  std::vector<ValueType> outputs = {sum, sum, sum, {DType::kI32, {1}}};
  if (gradients_of(attributes) >= LossGradients::kInput) outputs.push_back(x);
  if (gradients_of(attributes) == LossGradients::kInputAndWeight) outputs.push_back({DType::kF32, w.shape});
  return outputs;
}

void vjp(VjpContext& context) {
  SPILLWAY_CHECK(context.cotangent(kLoss) == kNone,
                 "{} must end the loss: its gradients are those for a cotangent of one", kName);
  const auto computed = static_cast<int>(gradients_of(context.attributes()));
  for (const int i : {kX, kW, kTeacherX, kTeacherW}) {
    if (!context.wants(i)) continue;
    if (i >= computed) {
      throw input_error(kName, "expected a gradient that was asked for, got input {}; build it with more LossGradients",
                        i);
    }
    context.add(i, context.output(i == kX ? kDx : kDw));
  }
}

int gradient_count(size_t outputs) { return static_cast<int>(outputs) - kDx; }

LogitShape shape_of(TypeList inputs, TypeList outputs) {
  const ValueType &x = *inputs[kX], &w = *inputs[kW];
  const int gradients = gradient_count(outputs.size());
  return {x.dtype, x.shape[0], x.shape[1], w.shape[0], gradients >= 1, gradients >= 2};
}

LogitShape teacher_shape(TypeList inputs) {
  const ValueType &x = *inputs[kTeacherX], &w = *inputs[kTeacherW];
  return {x.dtype, x.shape[0], x.shape[1], w.shape[0]};
}

Cost cost(TypeList inputs, TypeList outputs, const Attributes&) {
  Cost sum = logit_cost(shape_of(inputs, outputs), 1 + gradient_count(outputs.size()));
  const Cost teacher = logit_cost(teacher_shape(inputs), 1);
  sum.flops += teacher.flops;
  sum.bytes += teacher.bytes;
  return sum;
}

int64_t workspace_bytes(TypeList inputs, TypeList outputs, const Attributes&, int threads) {
  return DistillationWorkspace<LogitWorkspace>(shape_of(inputs, outputs), teacher_shape(inputs), threads).bytes;
}

int64_t cuda_workspace_bytes(TypeList inputs, TypeList outputs, const Attributes&) {
  return DistillationWorkspace<CudaLogitWorkspace>(shape_of(inputs, outputs), teacher_shape(inputs)).bytes;
}

const OpDef kLinearDistillation{.name = kName,
                                .infer = infer,
                                .vjp = vjp,
                                .cost = cost,
                                .workspace_bytes = workspace_bytes,
                                .cuda_workspace_bytes = cuda_workspace_bytes,
                                .cpu = linear_distillation_cpu,
                                .cuda = linear_distillation_cuda};

}  // namespace
}  // namespace linear_distillation_op

Distillation linear_distillation(Builder& builder, const DistillationOperands& o, LossGradients gradients,
                                 const DistillationOptions& options) {
  Attributes attributes{{"gradients", static_cast<int64_t>(gradients)},
                        {"temperature", options.temperature},
                        {"divergence_weight", options.divergence_weight},
                        {"cross_entropy_weight", options.cross_entropy_weight}};
  if (options.logit_cap > 0) attributes.add("logit_cap", options.logit_cap);
  if (options.teacher_logit_cap > 0) attributes.add("teacher_logit_cap", options.teacher_logit_cap);
  const std::vector<ValueId> outputs =
      builder.append(linear_distillation_op::kLinearDistillation,
                     {o.x, o.w, o.teacher_x, o.teacher_w, o.labels, o.scale}, std::move(attributes));
  return {outputs[0], outputs[1], outputs[2], outputs[3]};
}

}  // namespace spillway::ops
