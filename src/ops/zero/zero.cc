#include "ops/zero/zero.h"

#include <array>

#include "backend/kernel.h"
#include "base/index.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void zero_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void zero_cuda(const KernelArgs& args);
void zeros_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void zeros_cuda(const KernelArgs& args);

namespace zero_op {
namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes&) { return {*inputs[0]}; }
Cost cost(TypeList, TypeList outputs, const Attributes& attributes) {
  const Shape& shape = outputs[0]->shape;
  return {.bytes = static_cast<double>(shape_of(slice_of(attributes), shape).elems() * size_of(outputs[0]->dtype))};
}

const OpDef kZero{
    .name = "zero", .infer = infer, .cost = cost, .in_place = {{0, 0}}, .cpu = zero_cpu, .cuda = zero_cuda};

// The type of `zeros` is in its attributes: its dtype, and its extents under these names.
constexpr std::array<std::string_view, Shape::kMaxRank> kExtents = {"extent0", "extent1", "extent2", "extent3",
                                                                    "extent4"};

std::vector<ValueType> infer_zeros(TypeList, const Attributes& attributes) {
  std::vector<int64_t> dims;
  for (const std::string_view name : kExtents)
    if (const int64_t dim = attributes.integer_or(name, -1); dim >= 0) dims.push_back(dim);
  return {{static_cast<DType>(attributes.integer("dtype")), Shape(dims)}};
}
Cost cost_of_zeros(TypeList, TypeList outputs, const Attributes&) {
  return {.bytes = static_cast<double>(outputs[0]->bytes())};
}

const OpDef kZeros{.name = "zeros", .infer = infer_zeros, .cost = cost_of_zeros, .cpu = zeros_cpu, .cuda = zeros_cuda};

}  // namespace
}  // namespace zero_op

ValueId zero(Builder& builder, ValueId x) { return zero_rows(builder, x, {0, builder.type(x).shape[0]}); }

Operation zeros(const ValueType& type) {
  Operation op{.def = &zero_op::kZeros, .attributes = {{"dtype", static_cast<int64_t>(type.dtype)}}};
  for (int i = 0; i < type.shape.rank(); ++i) op.attributes.add(nth(zero_op::kExtents, i), type.shape[i]);
  return op;
}

ValueId zero_rows(Builder& builder, ValueId x, const RowSlice& rows) {
  return builder.append_one(zero_op::kZero, {x}, {{"first_row", rows.first}, {"rows", rows.count}});
}

}  // namespace spillway::ops
