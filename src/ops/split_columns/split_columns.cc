#include "ops/split_columns/split_columns.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "backend/kernel.h"
#include "base/error.h"
#include "graph/autodiff.h"
#include "ops/cast/cast.h"
#include "ops/check.h"
#include "ops/optional_kernel.h"
#include "ops/split_columns/widths.h"

namespace spillway::ops {

void split_columns_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void split_columns_cuda(const KernelArgs& args);
void join_columns_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void join_columns_cuda(const KernelArgs& args);

namespace split_columns_op {
namespace {

ValueType part_of(const ValueType& x, int64_t width) { return {x.dtype, {x.shape[0], width}, x.axis}; }

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  constexpr std::string_view kName = "split_columns";
  const ValueType& x = *inputs[0];
  expect_real(kName, "x", x);
  expect_rank(kName, "x", x, 2);
  const ColumnWidths widths(attributes);
  const int64_t groups = groups_of(attributes), sum = groups * widths.sum();
  if (sum != x.shape[1])
    throw input_error(kName, "expected parts of {} columns in all, got {}; check the model's sizes", x.shape[1], sum);
  std::vector<ValueType> outputs;
  for (size_t part = 0; part < widths.size(); ++part) outputs.push_back(part_of(x, groups * widths[part]));
  return outputs;
}

// Takes the parts, of which all but one may be absent, which stands for zeros.
std::vector<ValueType> infer_join(TypeList inputs, const Attributes& attributes) {
  constexpr std::string_view kName = "join_columns";
  const ColumnWidths widths(attributes);
  const int64_t groups = groups_of(attributes);
  const ValueType* any = nullptr;
  for (const ValueType* input : inputs) any = any == nullptr ? input : any;
  SPILLWAY_CHECK(any != nullptr, "{} of nothing", kName);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] != nullptr) expect_same(kName, "a part", *inputs[i], part_of(*any, groups * widths[i]));
  }
  return {part_of(*any, groups * widths.sum())};
}

void vjp_join(VjpContext& context);

const OpDef kJoinColumns{.name = "join_columns",
                         .infer = infer_join,
                         .vjp = vjp_join,
                         .cost = memory_cost,
                         .cpu = join_columns_cpu,
                         .cuda = join_columns_cuda};

void vjp(VjpContext& context) {
  std::vector<ValueId> parts;
  for (size_t i = 0; i < ColumnWidths(context.attributes()).size(); ++i)
    parts.push_back(context.cotangent(static_cast<int>(i)));
  context.add(0, context.builder().append_one(kJoinColumns, std::move(parts), context.attributes()));
}

const OpDef kSplitColumns{.name = "split_columns",
                          .infer = infer,
                          .vjp = vjp,
                          .cost = memory_cost,
                          .cpu = split_columns_cpu,
                          .cuda = split_columns_cuda};

void vjp_join(VjpContext& context) {
  const std::vector<ValueId> parts =
      context.builder().append(kSplitColumns, {context.cotangent(0)}, context.attributes());
  for (int i = 0; i < context.inputs(); ++i)
    if (context.wants(i)) add_cotangent(context, i, parts[static_cast<size_t>(i)]);
}

// Graphs of one group say nothing of it.
Attributes to_attributes(const std::vector<int64_t>& widths, int64_t groups) {
  const bool are_alike = std::adjacent_find(widths.begin(), widths.end(), std::not_equal_to<>()) == widths.end();
  SPILLWAY_CHECK(widths.size() > 1 && (are_alike || widths.size() <= kMaxColumnParts), "{} parts of columns",
                 widths.size());
  Attributes attributes;
  ColumnWidths::add(widths, attributes);
  if (groups != 1) attributes.add("groups", groups);
  return attributes;
}

}  // namespace
}  // namespace split_columns_op

std::vector<ValueId> split_columns(Builder& builder, ValueId x, const std::vector<int64_t>& widths, int64_t groups) {
  return builder.append(split_columns_op::kSplitColumns, {x}, split_columns_op::to_attributes(widths, groups));
}

ValueId join_columns(Builder& builder, const std::vector<ValueId>& parts, const std::vector<int64_t>& widths,
                     int64_t groups) {
  return builder.append_one(split_columns_op::kJoinColumns, parts, split_columns_op::to_attributes(widths, groups));
}

}  // namespace spillway::ops
