#include "ops/embedding/embedding.h"

#include <utility>

#include "backend/kernel.h"
#include "base/error.h"
#include "graph/autodiff.h"
#include "ops/check.h"
#include "ops/embedding/occurrences.h"
#include "ops/embedding/operands.h"
#include "ops/embedding/padding.h"
#include "ops/optional_kernel.h"
#include "ops/real_or.h"

namespace spillway::ops {

void embedding_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void embedding_cuda(const KernelArgs& args);
void embedding_grad_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void embedding_grad_cuda(const KernelArgs& args);

namespace embedding_op {
namespace {

void expect_ids(std::string_view op, const ValueType& ids) {
  expect_rank(op, "ids", ids, 1);
  expect_same(op, "ids", ids, {DType::kI32, ids.shape, ids.axis});
}

std::vector<ValueType> infer(TypeList inputs, const Attributes&) {
  const ValueType &ids = *inputs[kIds], &table = *inputs[kTable];
  expect_ids("embedding", ids);
  expect_real("embedding", "table", table);
  expect_rank("embedding", "table", table, 2);
  return {{table.dtype, {ids.shape[0], table.shape[1]}, ids.axis}};
}

// Counts the rows of the table that are read, and the written result.
Cost cost(TypeList inputs, TypeList outputs, const Attributes&) {
  return {.bytes = static_cast<double>(inputs[kIds]->bytes()) + 2.0 * static_cast<double>(outputs[0]->bytes())};
}

// Returns the table's gradient, of "rows" rows.
std::vector<ValueType> infer_grad(TypeList inputs, const Attributes& attributes) {
  constexpr std::string_view kName = "embedding_grad";
  const ValueType &ids = *inputs[kIds], &dy = *inputs[kDy];
  expect_ids(kName, ids);
  expect_real(kName, "dy", dy);
  expect_rank(kName, "dy", dy, 2);
  expect_row_numbers(kName, "ids", ids, DType::kI32, dy);
  const ValueType out{static_cast<DType>(attributes.integer("dtype")), {attributes.integer("rows"), dy.shape[1]}};
  expect_real(kName, "the gradient", out);
  if (inputs[kAddend] != nullptr) expect_same(kName, "the addend", *inputs[kAddend], out);
  return {out};
}

int64_t grad_cuda_workspace_bytes(TypeList, TypeList outputs, const Attributes&) {
  return occurrences_bytes(outputs[0]->shape[0]);
}

const OpDef kEmbeddingGrad{.name = "embedding_grad",
                           .infer = infer_grad,
                           .cost = memory_cost,
                           .cuda_workspace_bytes = grad_cuda_workspace_bytes,
                           .in_place = {{0, kAddend}},
                           .cpu = embedding_grad_cpu,
                           .cuda = embedding_grad_cuda};

// Names an option where it matters alone.
void add_options(Attributes& attributes, double scale, int64_t padding_idx) {
  if (scale != 1) attributes.add("scale", scale);
  if (padding_idx != kNoPadding) attributes.add(kPaddingIdx, padding_idx);
}

void vjp(VjpContext& context) {
  if (!context.wants(kTable)) return;
  const ValueId addend = context.take_first_term(kTable);
  Attributes attributes{{"rows", context.input_type(kTable).shape[0]},
                        {"dtype", static_cast<int64_t>(context.gradient_dtype(kTable))}};
  add_options(attributes, real_or(context.attributes(), "scale", 1), padding_idx(context.attributes()));
  context.add(kTable, context.builder().append_one(kEmbeddingGrad, {context.input(kIds), context.cotangent(0), addend},
                                                   std::move(attributes)));
}

const OpDef kEmbedding{.name = "embedding",
                       .infer = infer,
                       .vjp = vjp,
                       .cost = cost,
                       .table_input = kTable,
                       .cpu = embedding_cpu,
                       .cuda = embedding_cuda};

}  // namespace
}  // namespace embedding_op

ValueId embedding(Builder& builder, ValueId ids, ValueId table, const EmbeddingOptions& options) {
  const int64_t padding = options.padding_idx.value_or(kNoPadding);
  SPILLWAY_CHECK(padding == kNoPadding || (padding >= 0 && padding < builder.type(table).shape[0]), "row {}", padding);
  Attributes attributes;
  embedding_op::add_options(attributes, options.scale, padding);
  return builder.append_one(embedding_op::kEmbedding, {ids, table}, std::move(attributes));
}

}  // namespace spillway::ops
