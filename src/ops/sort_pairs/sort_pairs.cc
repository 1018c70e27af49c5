#include "ops/sort_pairs/sort_pairs.h"

#include "backend/kernel.h"
#include "ops/check.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void sort_pairs_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void sort_pairs_cuda(const KernelArgs& args);

namespace sort_pairs_op {
namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  const ValueType& experts = *inputs[0];
  expect_rank("sort_pairs", "experts", experts, 2);
  expect_same("sort_pairs", "experts", experts, {DType::kI32, experts.shape, experts.axis});
  return {experts, experts, {DType::kI32, {attributes.integer("experts") + 1}}};
}

// Returns the bytes of the number of pairs of each expert.
int64_t workspace_bytes(TypeList, TypeList, const Attributes& attributes, int) {
  return attributes.integer("experts") * size_of(DType::kI32);
}

// Sorts pairs of which the experts take turns.
void fill_indices(TypeList inputs, const Attributes& attributes, int output, const TensorView& view) {
  enum Output : int8_t { kOrder, kInverse, kOffsets };
  const int64_t pairs = inputs[0]->shape.elems(), experts = attributes.integer("experts");
  auto* const out = view.as<int32_t>();
  int32_t place = 0;
  for (int64_t expert = 0; expert < experts; ++expert) {
    if (output == kOffsets) out[expert] = place;
    for (int64_t pair = expert; pair < pairs; pair += experts, ++place) {
      if (output == kOrder) out[place] = static_cast<int32_t>(pair);
      if (output == kInverse) out[pair] = place;
    }
  }
  if (output == kOffsets) out[experts] = place;
}

const OpDef kSortPairs{.name = "sort_pairs",
                       .infer = infer,
                       .stops_gradients = true,
                       .cost = memory_cost,
                       .workspace_bytes = workspace_bytes,
                       .fill_indices = fill_indices,
                       .cpu = sort_pairs_cpu,
                       .cuda = sort_pairs_cuda};

}  // namespace
}  // namespace sort_pairs_op

SortedPairs sort_pairs(Builder& builder, ValueId experts, int64_t count) {
  const std::vector<ValueId> outputs = builder.append(sort_pairs_op::kSortPairs, {experts}, {{"experts", count}});
  return {.order = outputs[0], .inverse = outputs[1], .offsets = outputs[2]};
}

void expect_pairs(std::string_view op, std::string_view what, const ValueType& pairs, const ValueType& rows) {
  expect_real(op, "x", rows);
  expect_rank(op, "x", rows, 2);
  expect_rank(op, what, pairs, 2);
  expect_same(op, what, pairs, {DType::kI32, {rows.shape[0], pairs.shape[1]}, rows.axis});
}

}  // namespace spillway::ops
