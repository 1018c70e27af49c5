#include "ops/attention/cached_attention.h"

#include <algorithm>
#include <utility>

#include "backend/kernel.h"
#include "ops/attention/cpu/decode.h"
#include "ops/attention/cpu/passes.h"
#include "ops/attention/cuda/decode.h"
#include "ops/attention/operands.h"
#include "ops/check.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

SPILLWAY_OPTIONAL_KERNEL void cached_attention_cuda(const KernelArgs& args);
void decode_attention_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void decode_attention_cuda(const KernelArgs& args);

namespace {

using namespace attention_op;

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  constexpr std::string_view kName = "cached_attention";
  const ValueType &q = *inputs[kQuery], &k = *inputs[kKey];
  const AttentionOptions options = checked_attention_options(kName, attributes);
  if (!options.causal) throw input_error(kName, "expected causal attention, got none; a cache has no later keys");
  expect_real(kName, "q", q);
  expect_rank(kName, "q", q, 2);
  expect_same(kName, "q", q, {q.dtype, {q.shape[0], options.heads * options.head_size}, q.axis});
  expect_rank(kName, "keys", k, 2);
  expect_same(kName, "keys", k, {q.dtype, {k.shape[0], options.kv_heads * options.head_size}});
  expect_same(kName, "values", *inputs[kValue], k);
  expect_same(kName, "first", *inputs[kFirst], {DType::kI32, {q.shape[0]}, q.axis});
  expect_same(kName, "own", *inputs[kOwn], {DType::kI32, {q.shape[0]}, q.axis});
  expect_sinks(kName, find_input(inputs, kCacheSinks), options);
  return {q};
}

// Returns the cost of full sequences.
Cost cost(TypeList inputs, TypeList outputs, const Attributes& attributes) {
  Cost result = memory_cost(inputs, outputs, attributes);
  const int64_t capacity = inputs[kKey]->shape[0], longest = attention_options(attributes).sequence_len;
  const int64_t keys = longest > 0 ? std::min(longest, capacity) : capacity;
  result.flops = 4.0 * static_cast<double>(inputs[kQuery]->shape.elems()) * static_cast<double>(keys);
  result.matrix_product = result.in_f32 = true;
  return result;
}

int64_t workspace_bytes(TypeList inputs, TypeList, const Attributes& attributes, int threads) {
  const AttentionOptions options = attention_options(attributes);
  return cpu::attention_workspace_bytes(inputs[kQuery]->shape[0], options.heads, options.head_size, threads);
}

int64_t decode_workspace_bytes(TypeList, TypeList, const Attributes& attributes, int threads) {
  return threads * DecodeSizes(attention_options(attributes)).thread_floats() * static_cast<int64_t>(sizeof(float));
}

int64_t decode_cuda_workspace_bytes(TypeList inputs, TypeList, const Attributes& attributes) {
  const AttentionOptions options = attention_options(attributes);
  return cuda::DecodeParts::bytes(inputs[kQuery]->shape[0], options.heads, options.head_size);
}

void cached_attention_cpu(const KernelArgs& args) {
  cpu::attention_forward(cached_attention_args(args), args.workspace, *args.threads);
}

const OpDef kCachedAttention{.name = "cached_attention",
                             .infer = infer,
                             .cost = cost,
                             .workspace_bytes = workspace_bytes,
                             .cpu = cached_attention_cpu,
                             .cuda = cached_attention_cuda};

const OpDef kDecodeAttention{.name = "decode_attention",
                             .infer = infer,
                             .cost = cost,
                             .workspace_bytes = decode_workspace_bytes,
                             .cuda_workspace_bytes = decode_cuda_workspace_bytes,
                             .cpu = decode_attention_cpu,
                             .cuda = decode_attention_cuda};

ValueId append(Builder& builder, const OpDef& def, ValueId q, const CacheOperands& cache,
               const AttentionOptions& options, ValueId sinks) {
  std::vector<ValueId> inputs = {q, cache.keys, cache.values, cache.first, cache.own};
  if (sinks != kNone) inputs.push_back(sinks);
  return builder.append_one(def, std::move(inputs), to_attributes(options, builder.type(q).shape[0]));
}

}  // namespace

ValueId cached_attention(Builder& builder, ValueId q, const CacheOperands& cache, const AttentionOptions& options,
                         ValueId sinks) {
  return append(builder, kCachedAttention, q, cache, options, sinks);
}

ValueId decode_attention(Builder& builder, ValueId q, const CacheOperands& cache, const AttentionOptions& options,
                         ValueId sinks) {
  return append(builder, kDecodeAttention, q, cache, options, sinks);
}

}  // namespace spillway::ops
