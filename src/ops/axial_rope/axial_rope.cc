#include "ops/axial_rope/axial_rope.h"

#include <algorithm>
#include <utility>

#include "backend/kernel.h"
#include "graph/autodiff.h"
#include "ops/axial_rope/frequencies.h"
#include "ops/check.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void axial_rope_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void axial_rope_cuda(const KernelArgs& args);

namespace axial_rope_op {
namespace {

constexpr std::string_view kName = "axial_rope";

AxisSizes sizes_of(const Attributes& attributes) {
  return {attributes.integer(kAxisSizeNames[0]), attributes.integer(kAxisSizeNames[1]),
          attributes.integer(kAxisSizeNames[2])};
}

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  const ValueType& x = *inputs[0];
  const AxisSizes sizes = sizes_of(attributes);
  const int64_t head_size = sizes[0] + sizes[1] + sizes[2];
  const auto is_even = [](int64_t size) { return size >= 0 && size % 2 == 0; };
  if (!std::all_of(sizes.begin(), sizes.end(), is_even) || head_size > kMaxAxialHeadSize) {
    throw input_error(kName, "expected even sizes of axes, {} together at most, got {}, {} and {}; check the head size",
                      kMaxAxialHeadSize, sizes[0], sizes[1], sizes[2]);
  }
  expect_real(kName, "x", x);
  expect_rank(kName, "x", x, 2);
  expect_divides(kName, "a head size", head_size, x.shape[1]);
  expect_same(kName, "positions", *inputs[1], {DType::kI32, {x.shape[0], std::ssize(sizes)}, x.axis});
  return {x};
}

void vjp(VjpContext& context);

const OpDef kAxialRope{.name = "axial_rope",
                       .infer = infer,
                       .vjp = vjp,
                       .cost = memory_cost,
                       .in_place = {{0, 0}},
                       .cpu = axial_rope_cpu,
                       .cuda = axial_rope_cuda};

// Rotates back, which is the transpose of a rotation.
void vjp(VjpContext& context) {
  if (!context.wants(0)) return;
  Attributes attributes = context.attributes();
  (void)attributes.set("sign", -attributes.integer("sign"));
  context.add(
      0, context.builder().append_one(kAxialRope, {context.cotangent(0), context.input(1)}, std::move(attributes)));
}

}  // namespace
}  // namespace axial_rope_op

ValueId axial_rope(Builder& builder, ValueId x, ValueId positions, const AxisSizes& sizes, double theta) {
  return builder.append_one(axial_rope_op::kAxialRope, {x, positions},
                            {{kAxisSizeNames[0], sizes[0]},
                             {kAxisSizeNames[1], sizes[1]},
                             {kAxisSizeNames[2], sizes[2]},
                             {"theta", theta},
                             {"sign", int64_t{1}}});
}

}  // namespace spillway::ops
