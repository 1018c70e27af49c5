#include "ops/rope/rope.h"

#include "backend/kernel.h"
#include "graph/autodiff.h"
#include "ops/check.h"

namespace spillway::ops {

void rope_cpu(const KernelArgs& args);
void rope_cuda(const KernelArgs& args);

namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  const ValueType &x = *inputs[0], &inv_freq = *inputs[2];
  const int64_t size = attributes.integer("head_size");
  expect_real("rope", "x", x);
  expect_rank("rope", "x", x, 2);
  expect_divides("rope", "a head size", size, x.shape[1]);
  if (size % 2 != 0 || size > kMaxHeadSize) {
    throw input_error("rope", "expected an even head size of at most {}, got {}; check the model's sizes", kMaxHeadSize,
                      size);
  }
  expect_row_numbers("rope", "positions", *inputs[1], DType::kI32, x);
  expect_same("rope", "inv_freq", inv_freq, {DType::kF32, {size / 2}});
  return {x};
}

// The transpose of a rotation is the rotation back.
void vjp(VjpContext& context);

const OpDef kRope{.name = "rope",
                  .infer = infer,
                  .vjp = vjp,
                  .cost = memory_cost,
                  .in_place = {{0, 0}},
                  .cpu = rope_cpu,
                  .cuda = SPILLWAY_CUDA_KERNEL(rope_cuda)};

void vjp(VjpContext& context) {
  if (!context.wants(0)) return;
  const Attributes forward = context.attributes();
  context.add(0, context.builder().append_one(kRope, {context.cotangent(0), context.input(1), context.input(2)},
                                              {{"head_size", forward.integer("head_size")},
                                               {"attention_scaling", forward.real("attention_scaling")},
                                               {"sign", -forward.integer("sign")}}));
}

}  // namespace

ValueId rope(Builder& builder, ValueId x, ValueId positions, ValueId inv_freq, int64_t head_size,
             double attention_scaling) {
  return builder.append_one(kRope, {x, positions, inv_freq},
                            {{"head_size", head_size}, {"attention_scaling", attention_scaling}, {"sign", int64_t{1}}});
}

}  // namespace spillway::ops
