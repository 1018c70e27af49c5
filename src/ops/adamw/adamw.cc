#include "ops/adamw/adamw.h"

#include "backend/kernel.h"
#include "ops/adamw/numbers.h"
#include "ops/check.h"

namespace spillway::ops {

void adamw_cpu(const KernelArgs& args);
void adamw_cuda(const KernelArgs& args);

namespace {

constexpr std::string_view kName = "adamw";

// Inputs: weight, m, v, gradient, learning_rate, step, clip or none, master or none.
std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  const ValueType& weight = *inputs[0];
  const ValueType state{DType::kF32, shape_of(slice_of(attributes), weight.shape)};
  expect_real(kName, "weight", weight);
  expect_same(kName, "m", *inputs[1], state);
  expect_same(kName, "v", *inputs[2], state);
  expect_real(kName, "gradient", *inputs[3]);
  expect_shape(kName, "gradient", *inputs[3], weight.shape);
  expect_scalar(kName, "learning_rate", *inputs[4], DType::kF32);
  expect_scalar(kName, "step", *inputs[5], DType::kI32);
  if (inputs[6]) expect_scalar(kName, "clip", *inputs[6], DType::kF32);
  if (!inputs[7]) {
    expect_same(kName, "a weight without a master", weight, {DType::kF32, weight.shape});
    return {weight, state, state};
  }
  expect_same(kName, "a weight with a master", weight, {DType::kBF16, weight.shape});
  expect_same(kName, "master", *inputs[7], state);
  return {weight, state, state, state};
}

// On the GPU: the numbers of the step.
int64_t cuda_workspace_bytes(TypeList, TypeList, const Attributes&) { return sizeof(AdamwNumbers); }

const OpDef kAdamw{.name = kName,
                   .infer = infer,
                   .cost = slice_cost,
                   .cuda_workspace_bytes = cuda_workspace_bytes,
                   .in_place = {{0, 0}, {1, 1}, {2, 2}, {3, 7}},
                   .cpu = adamw_cpu,
                   .cuda = SPILLWAY_CUDA_KERNEL(adamw_cuda)};

}  // namespace

ValueId adamw(Builder& builder, const AdamwOperands& o, const AdamwOptions& options) {
  const RowSlice slice = o.slice.value_or(RowSlice{0, builder.type(o.weight).shape[0]});
  const std::vector<ValueId> next =
      builder.append(kAdamw, {o.weight, o.m, o.v, o.gradient, o.learning_rate, o.step, o.clip, o.master},
                     {{"beta1", options.beta1},
                      {"beta2", options.beta2},
                      {"eps", options.eps},
                      {"weight_decay", options.weight_decay},
                      {"first_row", slice.first},
                      {"rows", slice.count}});
  builder.update(o.weight, next[0]);
  builder.update(o.m, next[1]);
  builder.update(o.v, next[2]);
  if (o.master != kNone) builder.update(o.master, next[3]);
  return next[0];
}

}  // namespace spillway::ops
