#include "ops/layer_norm/layer_norm.h"

#include <utility>
#include <vector>

#include "backend/kernel.h"
#include "graph/autodiff.h"
#include "ops/check.h"
#include "ops/layer_norm/operands.h"
#include "ops/optional_kernel.h"
#include "ops/real_or.h"

namespace spillway::ops {

void layer_norm_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void layer_norm_cuda(const KernelArgs& args);
void layer_norm_grad_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void layer_norm_grad_cuda(const KernelArgs& args);

namespace layer_norm_op {
namespace {

// The part number of a norm without a modulation.
constexpr int64_t kNoPart = -1;

void expect_operands(std::string_view op, const ValueType& x, const ValueType* weight, const ValueType* modulation,
                     const ValueType* seq_offsets, const Attributes& attributes) {
  expect_real(op, "x", x);
  expect_rank(op, "x", x, 2);
  if (weight != nullptr) {
    expect_real(op, "weight", *weight);
    expect_same(op, "weight", *weight, {weight->dtype, {x.shape[1]}});
  }
  if (modulation == nullptr) return;
  for (const char* part : {"scale", "shift"})
    expect_modulation(op, x, *modulation, *seq_offsets, attributes.integer(part));
}

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  constexpr std::string_view kName = "layer_norm";
  const ValueType &x = *inputs[kX], *weight = inputs[kWeight], *bias = inputs[kBias];
  expect_operands(kName, x, weight, inputs[kModulation], inputs[kSeqOffsets], attributes);
  if (weight == nullptr && bias != nullptr)
    throw input_error(kName, "expected a weight beside the bias, got none; make it ones");
  if (bias != nullptr) expect_same(kName, "bias", *bias, *weight);
  return {x, {DType::kF32, {x.shape[0], 2}, x.axis}};
}

bool wants_sums(const Attributes& attributes) { return attributes.integer("wants_sums") != 0; }

// Returns outputs dx and, if "wants_sums" is set, dmodulation or dweight and dbias, these of the dtypes in the
// attributes.
std::vector<ValueType> infer_grad(TypeList inputs, const Attributes& attributes) {
  constexpr std::string_view kName = "layer_norm_grad";
  const ValueType &x = *inputs[kGradX], *modulation = inputs[kGradModulation];
  expect_operands(kName, x, inputs[kGradWeight], modulation, inputs[kGradSeqOffsets], attributes);
  expect_same(kName, "statistics", *inputs[kGradStatistics], {DType::kF32, {x.shape[0], 2}, x.axis});
  expect_same(kName, "dy", *inputs[kGradDy], x);
  std::vector<ValueType> outputs = {x};
  if (wants_sums(attributes) && modulation != nullptr) outputs.push_back(*modulation);
  if (wants_sums(attributes) && modulation == nullptr) {
    for (const char* dtype : {"weight_dtype", "bias_dtype"}) {
      outputs.push_back({static_cast<DType>(attributes.integer(dtype)), {x.shape[1]}});
      expect_real(kName, "the gradient", outputs.back());
    }
  }
  for (size_t i = 0; i < 3; ++i) {
    const ValueType* addend = inputs[kGradAddend + i];
    if (addend != nullptr && i < outputs.size()) expect_same(kName, "an addend", *addend, outputs[i]);
  }
  return outputs;
}

// Returns the bytes of two sums for each column and block.
int64_t sums_bytes(TypeList inputs, TypeList outputs, int64_t max_blocks) {
  if (outputs.size() < 2) return 0;
  const ValueType* const modulation = inputs[kGradModulation];
  const int64_t sequences = modulation == nullptr ? 0 : modulation->shape[0];
  return 2 * block_sums_floats(max_blocks, sequences, inputs[kGradX]->shape[1]) * int64_t{sizeof(float)};
}

int64_t grad_workspace_bytes(TypeList inputs, TypeList outputs, const Attributes&, int) {
  return sums_bytes(inputs, outputs, kMaxCpuBlocks);
}

int64_t grad_cuda_workspace_bytes(TypeList inputs, TypeList outputs, const Attributes&) {
  return sums_bytes(inputs, outputs, kMaxGpuBlocks);
}

const OpDef kLayerNormGrad{.name = "layer_norm_grad",
                           .infer = infer_grad,
                           .cost = memory_cost,
                           .workspace_bytes = grad_workspace_bytes,
                           .cuda_workspace_bytes = grad_cuda_workspace_bytes,
                           .in_place = {{0, kGradAddend},
                                        {0, kGradDy},
                                        {0, kGradX},
                                        {kFirstSum, kGradFirstAddend},
                                        {kSecondSum, kGradSecondAddend}},
                           .cpu = layer_norm_grad_cpu,
                           .cuda = layer_norm_grad_cuda};

void vjp(VjpContext& context) {
  const bool is_modulated = context.input(kModulation) != kNone;
  // The inputs whose gradients are outputs 1 and 2.
  const std::vector<Input> summed = is_modulated ? std::vector{kModulation} : std::vector{kWeight, kBias};
  std::vector<ValueId> addends(2, kNone);
  bool wants_any = false;
  for (size_t i = 0; i < summed.size(); ++i) {
    if (!context.wants(summed[i])) continue;
    wants_any = true;
    addends[i] = is_modulated ? context.take_first_term(summed[i]) : context.take_addend(summed[i]);
  }
  const auto dtype_of = [&](int i) {
    return static_cast<int64_t>(context.wants(i) ? context.gradient_dtype(i) : DType::kF32);
  };
  Attributes attributes{{"scale", context.attributes().integer("scale")},
                        {"shift", context.attributes().integer("shift")},
                        {"wants_sums", int64_t{wants_any}}};
  if (const double weight_shift = real_or(context.attributes(), "weight_shift", 0); weight_shift != 0)
    attributes.add("weight_shift", weight_shift);
  if (!is_modulated && wants_any) {
    attributes.add("weight_dtype", dtype_of(kWeight));
    attributes.add("bias_dtype", dtype_of(kBias));
  }
  const ValueId x_addend = context.wants(kX) ? context.take_addend(kX) : kNone;
  const std::vector<ValueId> gradients = context.builder().append(
      kLayerNormGrad,
      {context.input(kX), context.input(kWeight), context.input(kModulation), context.input(kSeqOffsets),
       context.output(1), context.cotangent(0), x_addend, addends[0], addends[1]},
      std::move(attributes));
  if (context.wants(kX)) context.add(kX, gradients[0]);
  for (size_t i = 0; i < summed.size(); ++i) {
    if (context.wants(summed[i])) context.add(summed[i], gradients[i + 1]);
  }
}

const OpDef kLayerNorm{.name = "layer_norm",
                       .infer = infer,
                       .vjp = vjp,
                       .cost = memory_cost,
                       .in_place = {{0, kX}},
                       .cpu = layer_norm_cpu,
                       .cuda = layer_norm_cuda};

}  // namespace
}  // namespace layer_norm_op

ValueId layer_norm(Builder& builder, ValueId x, ValueId weight, ValueId bias, double eps, double weight_shift) {
  Attributes attributes{{"eps", eps}, {"scale", layer_norm_op::kNoPart}, {"shift", layer_norm_op::kNoPart}};
  if (weight_shift != 0) attributes.add("weight_shift", weight_shift);
  return builder.append(layer_norm_op::kLayerNorm, {x, weight, bias, kNone, kNone}, std::move(attributes))[0];
}

ValueId modulated_layer_norm(Builder& builder, ValueId x, const Modulation& modulation, const ScaleAndShift& parts,
                             double eps) {
  return builder.append(layer_norm_op::kLayerNorm, {x, kNone, kNone, modulation.rows, modulation.seq_offsets},
                        {{"eps", eps}, {"scale", parts.scale}, {"shift", parts.shift}})[0];
}

}  // namespace spillway::ops
