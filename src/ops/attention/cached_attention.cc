#include "ops/attention/cached_attention.h"

#include <algorithm>

#include "backend/kernel.h"
#include "ops/attention/attention_attributes.h"
#include "ops/attention/cpu/decode.h"
#include "ops/attention/cpu/passes.h"
#include "ops/attention/cuda/decode.h"
#include "ops/attention/operands.h"
#include "ops/check.h"

namespace spillway::ops {

void cached_attention_cuda(const KernelArgs& args);
void decode_attention_cpu(const KernelArgs& args);
void decode_attention_cuda(const KernelArgs& args);

namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  constexpr std::string_view kName = "cached_attention";
  const ValueType &q = *inputs[0], &k = *inputs[1];
  expect_attention_sizes(kName, attributes);
  if (!is_causal(attributes))
    throw input_error(kName, "expected causal attention, got none; a cache has no later keys");
  const int64_t size = attributes.integer("head_size");
  expect_real(kName, "q", q);
  expect_rank(kName, "q", q, 2);
  expect_same(kName, "q", q, {q.dtype, {q.shape[0], attributes.integer("heads") * size}, q.axis});
  expect_rank(kName, "keys", k, 2);
  expect_same(kName, "keys", k, {q.dtype, {k.shape[0], attributes.integer("kv_heads") * size}});
  expect_same(kName, "values", *inputs[2], k);
  expect_same(kName, "first", *inputs[3], {DType::kI32, {q.shape[0]}, q.axis});
  expect_same(kName, "own", *inputs[4], {DType::kI32, {q.shape[0]}, q.axis});
  return {q};
}

// Returns the cost of full sequences.
Cost cost(TypeList inputs, TypeList outputs, const Attributes& attributes) {
  Cost result = memory_cost(inputs, outputs, attributes);
  const int64_t capacity = inputs[1]->shape[0], longest = attributes.integer_or("sequence_len", 0);
  const int64_t keys = longest > 0 ? std::min(longest, capacity) : capacity;
  result.flops = 4.0 * static_cast<double>(inputs[0]->shape.elems()) * static_cast<double>(keys);
  result.matrix_product = result.in_f32 = true;
  return result;
}

int64_t workspace_bytes(TypeList inputs, TypeList, const Attributes& attributes, int threads) {
  return cpu::attention_workspace_bytes(inputs[0]->shape[0], attributes.integer("heads"),
                                        attributes.integer("kv_heads"), attributes.integer("head_size"), threads);
}

int64_t decode_workspace_bytes(TypeList, TypeList, const Attributes& attributes, int threads) {
  return threads * DecodeSizes(attributes).thread_floats() * static_cast<int64_t>(sizeof(float));
}

int64_t decode_cuda_workspace_bytes(TypeList inputs, TypeList, const Attributes& attributes) {
  return cuda::DecodeParts::bytes(inputs[0]->shape[0], attributes.integer("heads"), attributes.integer("head_size"));
}

void cached_attention_cpu(const KernelArgs& args) {
  auto attention = attention_operands<cpu::AttentionArgs>(args);
  attention.cache = {args.inputs[3].as<int32_t>(), args.inputs[4].as<int32_t>()};
  attention.q_stride = args.inputs[0].shape[1];
  attention.k_stride = args.inputs[1].shape[1];
  attention.v_stride = args.inputs[2].shape[1];
  attention.o = args.outputs[0].data;
  cpu::attention_forward(attention, args.workspace, *args.threads);
}

const OpDef kCachedAttention{.name = "cached_attention",
                             .infer = infer,
                             .cost = cost,
                             .workspace_bytes = workspace_bytes,
                             .cpu = cached_attention_cpu,
                             .cuda = SPILLWAY_CUDA_KERNEL(cached_attention_cuda)};

const OpDef kDecodeAttention{.name = "decode_attention",
                             .infer = infer,
                             .cost = cost,
                             .workspace_bytes = decode_workspace_bytes,
                             .cuda_workspace_bytes = decode_cuda_workspace_bytes,
                             .cpu = decode_attention_cpu,
                             .cuda = SPILLWAY_CUDA_KERNEL(decode_attention_cuda)};

ValueId append(Builder& builder, const OpDef& def, ValueId q, const CacheOperands& cache,
               const AttentionOptions& options) {
  return builder.append_one(def, {q, cache.keys, cache.values, cache.first, cache.own},
                            to_attributes(options, builder.type(q).shape[0]));
}

}  // namespace

ValueId cached_attention(Builder& builder, ValueId q, const CacheOperands& cache, const AttentionOptions& options) {
  return append(builder, kCachedAttention, q, cache, options);
}

ValueId decode_attention(Builder& builder, ValueId q, const CacheOperands& cache, const AttentionOptions& options) {
  return append(builder, kDecodeAttention, q, cache, options);
}

}  // namespace spillway::ops
