#include "ops/attention/attention.h"

#include <algorithm>
#include <utility>

#include "backend/kernel.h"
#include "base/index.h"
#include "graph/autodiff.h"
#include "ops/attention/cpu/passes.h"
#include "ops/attention/cuda/shared.h"
#include "ops/attention/operands.h"
#include "ops/check.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

SPILLWAY_OPTIONAL_KERNEL void attention_cuda(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void attention_grad_cuda(const KernelArgs& args);

namespace {

using namespace attention_op;

void expect_operands(std::string_view op, TypeList inputs, const ValueType* key_offsets,
                     const AttentionOptions& options) {
  const ValueType &q = *inputs[kQuery], &offsets = *inputs[kSeqOffsets];
  expect_real(op, "q", q);
  expect_rank(op, "q", q, 2);
  expect_same(op, "q", q, {q.dtype, {q.shape[0], options.heads * options.head_size}, q.axis});
  expect_rank(op, "k", *inputs[kKey], 2);
  const ValueType& rows = key_offsets == nullptr ? q : *inputs[kKey];
  const ValueType keys{q.dtype, {rows.shape[0], options.kv_heads * options.head_size}, rows.axis};
  expect_same(op, "k", *inputs[kKey], keys);
  expect_same(op, "v", *inputs[kValue], keys);
  expect_rank(op, "seq_offsets", offsets, 1);
  expect_same(op, "seq_offsets", offsets, {DType::kI32, {std::max<int64_t>(2, offsets.shape[0])}});
  if (key_offsets == nullptr) return;
  expect_same(op, "key_offsets", *key_offsets, offsets);
  if (options.causal)
    throw input_error(op,
                      "expected keys of the same tokens where attention is causal, got others; set causal to false");
}

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  constexpr std::string_view kName = "attention";
  const AttentionOptions options = checked_attention_options(kName, attributes);
  expect_operands(kName, inputs, find_input(inputs, kKeyOffsets), options);
  expect_sinks(kName, find_input(inputs, kSinks), options);
  const ValueType& q = *inputs[kQuery];
  return {q, {DType::kF32, {q.shape[0], options.heads}, q.axis}};
}

std::vector<ValueType> infer_grad(TypeList inputs, const Attributes& attributes) {
  constexpr std::string_view kName = "attention_grad";
  const AttentionOptions options = checked_attention_options(kName, attributes);
  const ValueType* const sinks = find_input(inputs, kSinksRead);
  expect_operands(kName, inputs, find_input(inputs, kKeyOffsetsRead), options);
  expect_sinks(kName, sinks, options);
  const ValueType& q = *inputs[kQuery];
  expect_same(kName, "o", *inputs[kOutRead], q);
  expect_same(kName, "lse", *inputs[kLseRead], {DType::kF32, {q.shape[0], options.heads}, q.axis});
  expect_same(kName, "do", *inputs[kDOut], q);
  std::vector<ValueType> outputs = {q, *inputs[kKey], *inputs[kValue]};
  if (const int64_t dtype = attributes.integer_or("sinks_dtype", -1); sinks != nullptr && dtype >= 0) {
    outputs.push_back({static_cast<DType>(dtype), sinks->shape});
    expect_real(kName, "dsinks", outputs[kDSinks]);
  }
  return outputs;
}

// Returns the keys that a token sees, taking the sequences to divide their stream evenly.
double keys_seen(TypeList inputs, bool is_of_others, const AttentionOptions& options) {
  const auto rows = static_cast<double>(inputs[is_of_others ? kKey : kQuery]->shape[0]);
  const int64_t longest = is_of_others ? options.key_sequence_len : options.sequence_len;
  const double length = longest > 0 ? std::min(static_cast<double>(longest), rows) : rows;
  if (!options.causal) return length;
  const auto window = static_cast<double>(options.sliding_window);
  return window > 0 ? std::min(length / 2, window) : length / 2;
}

// Returns the cost of the products. Scores and their use are two products forward and five backward.
Cost product_cost(TypeList inputs, TypeList outputs, const ValueType* key_offsets, const Attributes& attributes,
                  double products) {
  Cost result = memory_cost(inputs, outputs, attributes);
  const Shape& q = inputs[kQuery]->shape;
  const auto tokens = static_cast<double>(q[0]), width = static_cast<double>(q[1]);
  result.flops =
      products * 2 * tokens * keys_seen(inputs, key_offsets != nullptr, attention_options(attributes)) * width;
  result.matrix_product = result.in_f32 = true;
  return result;
}

Cost cost(TypeList inputs, TypeList outputs, const Attributes& attributes) {
  return product_cost(inputs, outputs, find_input(inputs, kKeyOffsets), attributes, 2);
}

Cost grad_cost(TypeList inputs, TypeList outputs, const Attributes& attributes) {
  // For long sequences scores are computed twice, for dq and for dk and dv.
  return product_cost(inputs, outputs, find_input(inputs, kKeyOffsetsRead), attributes, 7);
}

int64_t workspace_bytes(TypeList inputs, TypeList, const Attributes& attributes, int threads) {
  const AttentionOptions options = attention_options(attributes);
  return cpu::attention_workspace_bytes(inputs[kQuery]->shape[0], options.heads, options.head_size, threads);
}

int64_t grad_workspace_bytes(TypeList inputs, TypeList, const Attributes& attributes, int threads) {
  const AttentionOptions options = attention_options(attributes);
  return cpu::attention_backward_workspace_bytes(inputs[kQuery]->shape[0], inputs[kKey]->shape[0], options.heads,
                                                 options.head_size, threads);
}

int64_t cuda_workspace(TypeList inputs, const Attributes& attributes, bool has_sinks, bool is_backward) {
  const cuda::LibraryAttention library = cuda::library_attention(
      attributes, inputs[kQuery]->dtype, inputs[kSeqOffsets]->shape[0] - 1, has_sinks, is_backward);
  return cuda::own_workspace(library).bytes + cuda::LibraryWorkspace(library).bytes;
}

int64_t cuda_workspace_bytes(TypeList inputs, TypeList, const Attributes& attributes) {
  return cuda_workspace(inputs, attributes, find_input(inputs, kSinks) != nullptr, false);
}

int64_t grad_cuda_workspace_bytes(TypeList inputs, TypeList, const Attributes& attributes) {
  return cuda_workspace(inputs, attributes, find_input(inputs, kSinksRead) != nullptr, true);
}

void attention_cpu(const KernelArgs& args) {
  cpu::attention_forward(attention_args(args), args.workspace, *args.threads);
}

void attention_grad_cpu(const KernelArgs& args) {
  cpu::attention_backward(attention_grad_args(args), args.workspace, *args.threads);
}

// The kernel is done with o before it writes; the others are read to the end.
const OpDef kAttentionGrad{.name = "attention_grad",
                           .infer = infer_grad,
                           .cost = grad_cost,
                           .workspace_bytes = grad_workspace_bytes,
                           .cuda_workspace_bytes = grad_cuda_workspace_bytes,
                           .in_place = {{0, 4}},  // kDQuery, kOutRead
                           .cpu = attention_grad_cpu,
                           .cuda = attention_grad_cuda};

// Returns an input that may be absent; kNone if it is.
ValueId input_or_none(const VjpContext& context, int at) { return at < context.inputs() ? context.input(at) : kNone; }

void vjp(VjpContext& context) {
  std::vector<ValueId> inputs = {context.input(kQuery),      context.input(kKey),  context.input(kValue),
                                 context.input(kSeqOffsets), context.output(kOut), context.output(kLse),
                                 context.cotangent(kOut)};
  const ValueId key_offsets = input_or_none(context, kKeyOffsets), sinks = input_or_none(context, kSinks);
  if (key_offsets != kNone || sinks != kNone) inputs.push_back(key_offsets);
  if (sinks != kNone) inputs.push_back(sinks);
  const bool wants_sinks = sinks != kNone && context.wants(kSinks);
  Attributes attributes = context.attributes();
  if (wants_sinks) attributes.add("sinks_dtype", static_cast<int64_t>(context.gradient_dtype(kSinks)));
  const std::vector<ValueId> gradients =
      context.builder().append(kAttentionGrad, std::move(inputs), std::move(attributes));
  const auto add = [&](Input input, GradOutput gradient) {
    if (context.wants(input)) context.add(input, nth(gradients, gradient));
  };
  add(kQuery, kDQuery);
  add(kKey, kDKey);
  add(kValue, kDValue);
  if (wants_sinks) add(kSinks, kDSinks);
}

const OpDef kAttention{.name = "attention",
                       .infer = infer,
                       .vjp = vjp,
                       .cost = cost,
                       .workspace_bytes = workspace_bytes,
                       .cuda_workspace_bytes = cuda_workspace_bytes,
                       .recompute_cost = RecomputeCost::kAttention,
                       .cpu = attention_cpu,
                       .cuda = attention_cuda};

}  // namespace

ValueId attention(Builder& builder, ValueId q, ValueId k, ValueId v, ValueId seq_offsets,
                  const AttentionOptions& options, ValueId sinks) {
  std::vector<ValueId> inputs = {q, k, v, seq_offsets};
  if (sinks != kNone) inputs.insert(inputs.end(), {kNone, sinks});
  return builder.append(kAttention, std::move(inputs), to_attributes(options, builder.type(q).shape[0]))[kOut];
}

ValueId cross_attention(Builder& builder, ValueId q, ValueId k, ValueId v, ValueId seq_offsets, ValueId key_offsets,
                        const AttentionOptions& options, ValueId sinks) {
  Attributes attributes = to_attributes(options, builder.type(q).shape[0]);
  attributes.add("key_tokens", builder.type(k).shape[0]);
  std::vector<ValueId> inputs = {q, k, v, seq_offsets, key_offsets};
  if (sinks != kNone) inputs.push_back(sinks);
  return builder.append(kAttention, std::move(inputs), std::move(attributes))[kOut];
}

}  // namespace spillway::ops
