#include "ops/gated_add/gated_add.h"

#include "backend/kernel.h"
#include "graph/autodiff.h"
#include "ops/cast/cast.h"
#include "ops/check.h"
#include "ops/gated_add/operands.h"
#include "ops/modulation/token_blocks.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void gated_add_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void gated_add_cuda(const KernelArgs& args);
void gated_add_grad_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void gated_add_grad_cuda(const KernelArgs& args);

namespace gated_add_op {
namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  constexpr std::string_view kName = "gated_add";
  const ValueType& h = *inputs[kH];
  expect_real(kName, "h", h);
  expect_rank(kName, "h", h, 2);
  expect_same(kName, "x", *inputs[kX], h);
  expect_modulation(kName, h, *inputs[kModulation], *inputs[kSeqOffsets], attributes.integer("part"));
  return {h};
}

// Returns outputs dx and, if "wants_modulation" is set, dmodulation.
std::vector<ValueType> infer_grad(TypeList inputs, const Attributes& attributes) {
  constexpr std::string_view kName = "gated_add_grad";
  const ValueType& x = *inputs[kGradX];
  expect_real(kName, "x", x);
  expect_rank(kName, "x", x, 2);
  expect_modulation(kName, x, *inputs[kGradModulation], *inputs[kGradSeqOffsets], attributes.integer("part"));
  expect_same(kName, "dy", *inputs[kGradDy], x);
  if (inputs[kGradAddend] != nullptr)
    expect_same(kName, "the addend of dmodulation", *inputs[kGradAddend], *inputs[kGradModulation]);
  std::vector<ValueType> outputs = {x};
  if (attributes.integer("wants_modulation") != 0) outputs.push_back(*inputs[kGradModulation]);
  return outputs;
}

int64_t sums_bytes(TypeList inputs, TypeList outputs, int64_t max_blocks) {
  if (outputs.size() < 2) return 0;
  return block_sums_floats(max_blocks, inputs[kGradModulation]->shape[0], inputs[kGradX]->shape[1]) *
         int64_t{sizeof(float)};
}

int64_t grad_workspace_bytes(TypeList inputs, TypeList outputs, const Attributes&, int) {
  return sums_bytes(inputs, outputs, kMaxCpuBlocks);
}

int64_t grad_cuda_workspace_bytes(TypeList inputs, TypeList outputs, const Attributes&) {
  return sums_bytes(inputs, outputs, kMaxGpuBlocks);
}

const OpDef kGatedAddGrad{.name = "gated_add_grad",
                          .infer = infer_grad,
                          .cost = memory_cost,
                          .workspace_bytes = grad_workspace_bytes,
                          .cuda_workspace_bytes = grad_cuda_workspace_bytes,
                          .in_place = {{0, kGradDy}, {0, kGradX}, {1, kGradAddend}},
                          .cpu = gated_add_grad_cpu,
                          .cuda = gated_add_grad_cuda};

void vjp(VjpContext& context) {
  const ValueId dy = context.cotangent(0);
  if (context.wants(kH)) context.add(kH, dy);
  const bool wants_modulation = context.wants(kModulation);
  if (!context.wants(kX) && !wants_modulation) return;
  const ValueId addend = wants_modulation ? context.take_first_term(kModulation) : kNone;
  const std::vector<ValueId> gradients = context.builder().append(
      kGatedAddGrad, {context.input(kX), context.input(kModulation), context.input(kSeqOffsets), dy, addend},
      {{"part", context.attributes().integer("part")}, {"wants_modulation", int64_t{wants_modulation}}});
  if (context.wants(kX)) context.add(kX, gradients[0]);
  if (wants_modulation) context.add(kModulation, gradients[1]);
}

const OpDef kGatedAdd{.name = "gated_add",
                      .infer = infer,
                      .vjp = vjp,
                      .cost = memory_cost,
                      .in_place = {{0, kH}, {0, kX}},
                      .cpu = gated_add_cpu,
                      .cuda = gated_add_cuda};

}  // namespace
}  // namespace gated_add_op

ValueId gated_add(Builder& builder, ValueId h, ValueId x, const Modulation& modulation, int64_t part) {
  return builder.append_one(gated_add_op::kGatedAdd, {h, x, modulation.rows, modulation.seq_offsets}, {{"part", part}});
}

}  // namespace spillway::ops
