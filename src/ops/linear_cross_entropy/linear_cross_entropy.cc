#include "ops/linear_cross_entropy/linear_cross_entropy.h"

#include <utility>

#include "backend/kernel.h"
#include "graph/autodiff.h"
#include "ops/check.h"
#include "ops/linear_cross_entropy/cuda_layout.h"
#include "ops/linear_cross_entropy/layout.h"
#include "ops/logits/cost.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void linear_cross_entropy_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void linear_cross_entropy_cuda(const KernelArgs& args);

namespace linear_cross_entropy_op {
namespace {

constexpr std::string_view kName = "linear_cross_entropy";

LossGradients gradients_of(const Attributes& attributes) {
  return static_cast<LossGradients>(attributes.integer("gradients"));
}

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  const ValueType &x = *inputs[kX], &w = *inputs[kW];
  expect_real(kName, "x", x);
  expect_rank(kName, "x", x, 2);
  expect_same(kName, "w", w, {x.dtype, {w.shape[0], x.shape[1]}});
  expect_row_numbers(kName, "labels", *inputs[kLabels], DType::kI32, x);
  expect_scalar(kName, "scale", *inputs[kScale], DType::kF32);
  std::vector<ValueType> outputs = {{DType::kF32, {1}}, {DType::kI32, {1}}};
  if (gradients_of(attributes) >= LossGradients::kInput) outputs.push_back(x);
  if (gradients_of(attributes) == LossGradients::kInputAndWeight) outputs.push_back({DType::kF32, w.shape});
  return outputs;
}

void vjp(VjpContext& context) {
  SPILLWAY_CHECK(context.cotangent(0) == kNone, "{} must end the loss: its gradients are those for a cotangent of one",
                 kName);
  const auto computed = static_cast<int>(gradients_of(context.attributes()));
  for (const int i : {kX, kW}) {
    if (!context.wants(i)) continue;
    if (i >= computed) {
      throw input_error(kName, "expected the gradient of {} to be asked for; build it with more LossGradients",
                        i == kX ? "x" : "w");
    }
    context.add(i, context.output(i == kX ? kDx : kDw));
  }
}

LogitShape shape_of(TypeList inputs, TypeList outputs) {
  const ValueType &x = *inputs[kX], &w = *inputs[kW];
  const int gradients = gradient_count(outputs.size());
  return {x.dtype, x.shape[0], x.shape[1], w.shape[0], gradients >= 1, gradients >= 2};
}

Cost cost(TypeList inputs, TypeList outputs, const Attributes&) {
  return logit_cost(shape_of(inputs, outputs), 1 + gradient_count(outputs.size()));
}

int64_t workspace_bytes(TypeList inputs, TypeList outputs, const Attributes&, int threads) {
  return LossWorkspace(shape_of(inputs, outputs), threads).bytes;
}

int64_t cuda_workspace_bytes(TypeList inputs, TypeList outputs, const Attributes&) {
  return CudaLossWorkspace(shape_of(inputs, outputs)).bytes;
}

const OpDef kLinearCrossEntropy{.name = kName,
                                .infer = infer,
                                .vjp = vjp,
                                .cost = cost,
                                .workspace_bytes = workspace_bytes,
                                .cuda_workspace_bytes = cuda_workspace_bytes,
                                .cpu = linear_cross_entropy_cpu,
                                .cuda = linear_cross_entropy_cuda};

}  // namespace
}  // namespace linear_cross_entropy_op

CrossEntropy linear_cross_entropy(Builder& builder, ValueId x, ValueId w, ValueId labels, ValueId scale,
                                  LossGradients gradients, double logit_cap, double label_smoothing) {
  Attributes attributes{{"gradients", static_cast<int64_t>(gradients)}};
  if (logit_cap > 0) attributes.add("logit_cap", logit_cap);
  if (label_smoothing > 0) attributes.add(kLabelSmoothing, label_smoothing);
  const std::vector<ValueId> outputs =
      builder.append(linear_cross_entropy_op::kLinearCrossEntropy, {x, w, labels, scale}, std::move(attributes));
  return {outputs[0], outputs[1]};
}

}  // namespace spillway::ops
