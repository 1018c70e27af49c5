#include "ops/linear_log_prob/linear_log_prob.h"

#include <utility>

#include "backend/kernel.h"
#include "graph/autodiff.h"
#include "ops/check.h"
#include "ops/linear_log_prob/operands.h"
#include "ops/logits/cost.h"
#include "ops/logits/cuda_chunks.h"
#include "ops/optional_kernel.h"
#include "ops/real_or.h"

namespace spillway::ops {

void linear_log_prob_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void linear_log_prob_cuda(const KernelArgs& args);
void linear_log_prob_grad_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void linear_log_prob_grad_cuda(const KernelArgs& args);

namespace linear_log_prob_op {
namespace {

constexpr std::string_view kName = "linear_log_prob";

LogitShape shape_of(TypeList inputs, bool x_gradient, bool w_gradient) {
  const ValueType &x = *inputs[kX], &w = *inputs[kW];
  return {x.dtype, x.shape[0], x.shape[1], w.shape[0], x_gradient, w_gradient};
}
LogitShape forward_shape(TypeList inputs) { return shape_of(inputs, false, false); }
LogitShape backward_shape(TypeList inputs, const Attributes& attributes) {
  return shape_of(inputs, attributes.integer("x_gradient") != 0, attributes.integer("w_gradient") != 0);
}

ValueType numbers_of(const ValueType& x) { return {DType::kF32, {x.shape[0]}, x.axis}; }

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  const ValueType &x = *inputs[kX], &w = *inputs[kW];
  expect_real(kName, "x", x);
  expect_rank(kName, "x", x, 2);
  expect_same(kName, "w", w, {x.dtype, {w.shape[0], x.shape[1]}});
  expect_row_numbers(kName, "labels", *inputs[kLabels], DType::kI32, x);
  const bool has_top = attributes.integer("top") > 0;
  return std::vector<ValueType>(kLogProbOutputs - (has_top ? 0 : 1), numbers_of(x));
}

std::vector<ValueType> infer_grad(TypeList inputs, const Attributes& attributes) {
  const ValueType &x = *inputs[kX], &w = *inputs[kW];
  for (const size_t i : {kLogSum, kEntropy, kLogProbCotangent, kEntropyCotangent})
    if (inputs[i]) expect_row_numbers(kName, "a number of each token", *inputs[i], DType::kF32, x);
  std::vector<ValueType> outputs;
  if (attributes.integer("x_gradient")) outputs.push_back(x);
  if (attributes.integer("w_gradient")) outputs.push_back({DType::kF32, w.shape});
  return outputs;
}

const OpDef kLinearLogProbGrad{
    .name = "linear_log_prob_grad",
    .infer = infer_grad,
    .cost =
        [](TypeList inputs, TypeList outputs, const Attributes& attributes) {
          return logit_cost(backward_shape(inputs, attributes), 1 + static_cast<int>(outputs.size()));
        },
    .workspace_bytes = [](TypeList inputs, TypeList, const Attributes& attributes,
                          int threads) { return LogitWorkspace(backward_shape(inputs, attributes), threads).bytes; },
    .cuda_workspace_bytes =
        [](TypeList inputs, TypeList, const Attributes& attributes) {
          return CudaLogitWorkspace(backward_shape(inputs, attributes)).bytes;
        },
    .cpu = linear_log_prob_grad_cpu,
    .cuda = linear_log_prob_grad_cuda};

void add_cap(Attributes& attributes, double cap) {
  if (cap > 0) attributes.add("logit_cap", cap);
}

void vjp(VjpContext& context) {
  for (const Output output : {kLogSumOut, kMeanLogitOut, kIsLikeliestOut, kLogSquareSumOut, kTopEntropyOut}) {
    if (output == kTopEntropyOut && context.attributes().integer("top") == 0) continue;
    if (context.cotangent(static_cast<int>(output)) != kNone)
      throw input_error(kName, "expected a loss of log-probabilities and entropies, got one of output {}; detach it",
                        static_cast<int>(output));
  }
  const bool wants_x = context.wants(kX), wants_w = context.wants(kW);
  Attributes attributes{{"temperature", context.attributes().real("temperature")},
                        {"x_gradient", int64_t{wants_x}},
                        {"w_gradient", int64_t{wants_w}}};
  add_cap(attributes, real_or(context.attributes(), "logit_cap", 0));
  const std::vector<ValueId> gradients = context.builder().append(
      kLinearLogProbGrad,
      {context.input(kX), context.input(kW), context.input(kLabels), context.output(kLogSumOut),
       context.output(kEntropyOut), context.cotangent(0), context.cotangent(1)},
      std::move(attributes));
  if (wants_x) context.add(kX, gradients.front());
  if (wants_w) context.add(kW, gradients.back());
}

const OpDef kLinearLogProb{
    .name = kName,
    .infer = infer,
    .vjp = vjp,
    .cost = [](TypeList inputs, TypeList, const Attributes&) { return logit_cost(forward_shape(inputs), 1); },
    .workspace_bytes = [](TypeList inputs, TypeList, const Attributes&,
                          int threads) { return LogitWorkspace(forward_shape(inputs), threads).bytes; },
    .cuda_workspace_bytes = [](TypeList inputs, TypeList,
                               const Attributes&) { return CudaLogitWorkspace(forward_shape(inputs)).bytes; },
    .recompute_cost = RecomputeCost::kProduct,
    .cpu = linear_log_prob_cpu,
    .cuda = linear_log_prob_cuda};

}  // namespace
}  // namespace linear_log_prob_op

LogProb linear_log_prob(Builder& builder, ValueId x, ValueId w, ValueId labels, double temperature, double logit_cap,
                        int64_t top) {
  using namespace linear_log_prob_op;
  Attributes attributes{{"temperature", temperature}, {"top", top}};
  add_cap(attributes, logit_cap);
  const std::vector<ValueId> outputs = builder.append(kLinearLogProb, {x, w, labels}, std::move(attributes));
  return {.log_prob = outputs[kLogProbOut],
          .entropy = outputs[kEntropyOut],
          .mean_logit = outputs[kMeanLogitOut],
          .is_likeliest = outputs[kIsLikeliestOut],
          .log_square_sum = outputs[kLogSquareSumOut],
          .top_entropy = top > 0 ? outputs[kTopEntropyOut] : kNone};
}

}  // namespace spillway::ops
