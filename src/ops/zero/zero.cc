#include "ops/zero/zero.h"

#include "backend/kernel.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void zero_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void zero_cuda(const KernelArgs& args);

namespace zero_op {
namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes&) { return {*inputs[0]}; }
Cost cost(TypeList, TypeList outputs, const Attributes& attributes) {
  const Shape& shape = outputs[0]->shape;
  return {.bytes = static_cast<double>(shape_of(slice_of(attributes), shape).elems() * size_of(outputs[0]->dtype))};
}

const OpDef kZero{
    .name = "zero", .infer = infer, .cost = cost, .in_place = {{0, 0}}, .cpu = zero_cpu, .cuda = zero_cuda};

}  // namespace
}  // namespace zero_op

ValueId zero(Builder& builder, ValueId x) { return zero_rows(builder, x, {0, builder.type(x).shape[0]}); }

ValueId zero_rows(Builder& builder, ValueId x, const RowSlice& rows) {
  return builder.append_one(zero_op::kZero, {x}, {{"first_row", rows.first}, {"rows", rows.count}});
}

}  // namespace spillway::ops
