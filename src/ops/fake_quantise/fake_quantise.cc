#include "ops/fake_quantise/fake_quantise.h"

#include "backend/kernel.h"
#include "base/math.h"
#include "graph/autodiff.h"
#include "ops/cast/cast.h"
#include "ops/check.h"
#include "ops/fake_quantise/operands.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void fake_quantise_cpu(const KernelArgs& args);
void fake_quantise_grad_cpu(const KernelArgs& args);
void absmax_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void fake_quantise_cuda(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void fake_quantise_grad_cuda(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void absmax_cuda(const KernelArgs& args);

namespace fake_quantise_op {
namespace {

constexpr const char* kName = "fake_quantise";

// Gradients pass everywhere: what lies outside of the format is rounded to its end.
bool passes_all(FakeFormat format) { return format == FakeFormat::kMxfp4 || format == FakeFormat::kNvfp4; }

void check_x(const ValueType& x, const Attributes& attributes) {
  expect_real(kName, "x", x);
  const int64_t columns = x.shape[x.shape.rank() - 1], group = group_of(attributes, columns);
  if (group < 1 || columns % group != 0)
    throw input_error(
        "qat", "expected inputs of linear layers in whole groups of {}, got {}; {}", group, columns,
        passes_all(format_of(attributes)) ? "set another weight_dtype" : "set a group_size that divides them");
  constexpr int64_t kLanes = 16;
  if (format_of(attributes) == FakeFormat::kInt4 && group % kLanes != 0)
    throw input_error(kName, "expected groups of a multiple of {}, got {}; set another group_size", kLanes, group);
}

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  check_x(*inputs[kX], attributes);
  if (inputs[kEnabled] != nullptr) expect_scalar(kName, "enabled", *inputs[kEnabled], DType::kI64);
  if (inputs[kAbsmax] != nullptr) expect_scalar(kName, "absmax", *inputs[kAbsmax], DType::kF32);
  return {*inputs[kX]};
}

std::vector<ValueType> infer_grad(TypeList inputs, const Attributes& attributes) {
  check_x(*inputs[kX], attributes);
  expect_same(kName, "dy", *inputs[kDy], *inputs[kX]);
  return {*inputs[kX]};
}

const OpDef kGrad{.name = "fake_quantise_grad",
                  .infer = infer_grad,
                  .cost = memory_cost,
                  .in_place = {{0, kDy}},
                  .cpu = fake_quantise_grad_cpu,
                  .cuda = fake_quantise_grad_cuda};

void vjp(VjpContext& context) {
  if (!context.wants(kX)) return;
  ValueId dx = context.cotangent(0);
  const Attributes attributes = context.attributes();
  if (!passes_all(format_of(attributes))) {
    // The fused loss has a head's gradient in f32, whatever the head is.
    const ValueId dy = cast(context.builder(), dx, context.input_type(kX).dtype);
    dx = context.builder().append_one(kGrad, {context.input(kX), context.input(kEnabled), dy}, attributes);
  }
  add_cotangent(context, kX, dx);
}

const OpDef kFakeQuantise{.name = "fake_quantise",
                          .infer = infer,
                          .vjp = vjp,
                          .cost = memory_cost,
                          .cpu = fake_quantise_cpu,
                          .cuda = fake_quantise_cuda};

std::vector<ValueType> infer_absmax(TypeList inputs, const Attributes& /*attributes*/) {
  expect_real("absmax", "x", *inputs[0]);
  return {{DType::kF32, {1}}};
}

int64_t absmax_workspace(TypeList inputs, TypeList /*outputs*/, const Attributes& /*attributes*/, int /*threads*/) {
  return div_ceil(inputs[0]->shape.elems(), kAbsmaxBlock) * size_of(DType::kF32);
}

const OpDef kAbsmaxOf{.name = "absmax",
                      .infer = infer_absmax,
                      .stops_gradients = true,
                      .cost = memory_cost,
                      .workspace_bytes = absmax_workspace,
                      .cpu = absmax_cpu,
                      .cuda = absmax_cuda};

}  // namespace
}  // namespace fake_quantise_op

int64_t fake_group(FakeFormat format, int64_t group, int64_t columns) {
  switch (format) {
    case FakeFormat::kInt4:
    case FakeFormat::kInt4OfFloat8:
      return group;
    case FakeFormat::kInt8:
    case FakeFormat::kFloat8:
      return columns;
    case FakeFormat::kMxfp4:
    case FakeFormat::kNvfp4:
      return fixed_group_of(format);
  }
  return group;
}

ValueId fake_quantise(Builder& builder, ValueId x, const FakeQuantiseOptions& options) {
  using namespace fake_quantise_op;
  const ValueId absmax = options.format == FakeFormat::kNvfp4 ? builder.append_one(kAbsmaxOf, {x}) : kNone;
  return builder.append_one(kFakeQuantise, {x, options.enabled, absmax},
                            {{"format", static_cast<int64_t>(options.format)}, {"group", options.group}});
}

}  // namespace spillway::ops
