#include "ops/ema/ema.h"

#include <algorithm>

#include "backend/kernel.h"
#include "ops/check.h"
#include "ops/ema/operands.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void ema_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void ema_cuda(const KernelArgs& args);

namespace ema_op {
namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes&) {
  const ValueType &average = *inputs[kAverage], &weight = *inputs[kWeight];
  expect_f32("ema", "the average", average);
  expect_real("ema", "the weight", weight);
  expect_scalar("ema", "the step", *inputs[kStep], DType::kI32);
  return {average};
}

// Counts the average as read and written, and as many elements of the weight as read.
Cost cost(TypeList inputs, TypeList, const Attributes&) {
  const int64_t elems = inputs[kAverage]->shape.elems();
  return {.flops = 3 * static_cast<double>(elems),
          .bytes = static_cast<double>(elems * (2 * size_of(DType::kF32) + size_of(inputs[kWeight]->dtype)))};
}

const OpDef kEma{
    .name = "ema", .infer = infer, .cost = cost, .in_place = {{0, kAverage}}, .cpu = ema_cpu, .cuda = ema_cuda};

}  // namespace
}  // namespace ema_op

ValueId ema(Builder& builder, ValueId average, ValueId weight, ValueId step, const RowSlice& rows,
            const EmaOptions& options) {
  const Shape& shape = builder.type(weight).shape;
  const bool weight_has_more_rows = builder.type(average).shape != shape;
  const int64_t first = weight_has_more_rows ? elements_of(rows, shape).begin : 0;
  return builder.append_one(
      ema_op::kEma, {average, weight, step},
      {{"decay", options.decay}, {"start_step", std::max<int64_t>(1, options.start_step)}, {"first", first}});
}

}  // namespace spillway::ops
