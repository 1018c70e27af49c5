#include "ops/rope/rope.h"

#include "backend/kernel.h"
#include "graph/autodiff.h"
#include "ops/check.h"
#include "ops/optional_kernel.h"
#include "ops/rope/turn.h"

namespace spillway::ops {

void rope_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void rope_cuda(const KernelArgs& args);

namespace rope_op {
namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  const ValueType &x = *inputs[kX], &inv_freq = *inputs[kInvFreq];
  const int64_t size = attributes.integer("head_size");
  expect_real("rope", "x", x);
  expect_rank("rope", "x", x, 2);
  expect_divides("rope", "a head size", size, x.shape[1]);
  if (size % 2 != 0 || size > kMaxHeadSize) {
    throw input_error("rope", "expected an even head size of at most {}, got {}; check the model's sizes", kMaxHeadSize,
                      size);
  }
  expect_row_numbers("rope", "positions", *inputs[kPositions], DType::kI32, x);
  const bool is_by_length = inputs[kOffsets] != nullptr;
  if (is_by_length) expect_same("rope", "offsets", *inputs[kOffsets], {DType::kI32, {inputs[kOffsets]->shape.elems()}});
  const int64_t kinds = is_by_length ? 2 : 1, half = inv_freq.shape.elems() / kinds;
  expect_same("rope", "inv_freq", inv_freq, {DType::kF32, {kinds * half}});
  if (half == 0 || 2 * half > size)
    throw input_error("rope", "expected angles of 1 to {} pairs, got {}; check the model's sizes", size / 2, half);
  return {x};
}

// Rotates back, which is the transpose of a rotation.
void vjp(VjpContext& context);

const OpDef kRope{.name = "rope",
                  .infer = infer,
                  .vjp = vjp,
                  .cost = memory_cost,
                  .in_place = {{0, kX}},
                  .cpu = rope_cpu,
                  .cuda = rope_cuda};

void vjp(VjpContext& context) {
  if (!context.wants(kX)) return;
  Attributes back = context.attributes();
  back.set("sign", -back.integer("sign"));
  context.add(kX, context.builder().append_one(kRope,
                                               {context.cotangent(0), context.input(kPositions),
                                                context.input(kInvFreq), context.input(kOffsets)},
                                               back));
}

}  // namespace
}  // namespace rope_op

ValueId rope(Builder& builder, ValueId x, ValueId positions, ValueId inv_freq, const RopeOptions& options,
             const RopeByLength& by_length) {
  return builder.append_one(rope_op::kRope, {x, positions, inv_freq, by_length.offsets},
                            {{"head_size", options.head_size},
                             {"layout", static_cast<int64_t>(options.layout)},
                             {"attention_scaling", options.attention_scaling},
                             {"growth", options.growth},
                             {"growth_length", options.growth_length},
                             {"max_short", by_length.max_short},
                             {"sign", int64_t{1}}});
}

}  // namespace spillway::ops
