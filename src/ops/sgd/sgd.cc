#include "ops/sgd/sgd.h"

#include "backend/kernel.h"
#include "ops/check.h"

namespace spillway::ops {

void sgd_cpu(const KernelArgs& args);
void sgd_cuda(const KernelArgs& args);

namespace {

constexpr std::string_view kName = "sgd";

// Inputs: weight, gradient, learning_rate, clip or none, momentum or none, master or none.
std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  const ValueType& weight = *inputs[0];
  const ValueType state{DType::kF32, shape_of(slice_of(attributes), weight.shape)};
  expect_real(kName, "weight", weight);
  expect_real(kName, "gradient", *inputs[1]);
  expect_shape(kName, "gradient", *inputs[1], weight.shape);
  expect_scalar(kName, "learning_rate", *inputs[2], DType::kF32);
  if (inputs[3]) expect_scalar(kName, "clip", *inputs[3], DType::kF32);
  std::vector<ValueType> outputs = {weight};
  if (inputs[4]) {
    expect_same(kName, "momentum", *inputs[4], state);
    outputs.push_back(state);
  } else if (attributes.real("momentum") != 0) {
    throw input_error(kName, "expected a value that keeps the momentum {}, got none; add one or use no momentum",
                      attributes.real("momentum"));
  }
  if (inputs[5]) {
    expect_same(kName, "a weight with a master", weight, {DType::kBF16, weight.shape});
    expect_same(kName, "master", *inputs[5], state);
    outputs.push_back(state);
  } else {
    expect_same(kName, "a weight without a master", weight, {DType::kF32, weight.shape});
  }
  return outputs;
}

// The master follows the momentum among the outputs, so it is the first or the second of them.
const OpDef kSgd{.name = kName,
                 .infer = infer,
                 .cost = slice_cost,
                 .in_place = {{0, 0}, {1, 4}, {1, 5}, {2, 5}},
                 .cpu = sgd_cpu,
                 .cuda = SPILLWAY_CUDA_KERNEL(sgd_cuda)};

}  // namespace

ValueId sgd(Builder& builder, const SgdOperands& o, const SgdOptions& options) {
  const RowSlice slice = o.slice.value_or(RowSlice{0, builder.type(o.weight).shape[0]});
  const std::vector<ValueId> next =
      builder.append(kSgd, {o.weight, o.gradient, o.learning_rate, o.clip, o.momentum, o.master},
                     {{"momentum", options.momentum},
                      {"weight_decay", options.weight_decay},
                      {"first_row", slice.first},
                      {"rows", slice.count}});
  builder.update(o.weight, next[0]);
  if (o.momentum != kNone) builder.update(o.momentum, next[1]);
  if (o.master != kNone) builder.update(o.master, next.back());
  return next[0];
}

}  // namespace spillway::ops
