#include "ops/cached_attention/cached_attention.h"

#include "backend/kernel.h"
#include "ops/attention/attention_attributes.h"
#include "ops/cached_attention/decode_splits.h"
#include "ops/cached_attention/tile_sizes.h"
#include "ops/check.h"

namespace spillway::ops {

void cached_attention_cpu(const KernelArgs& args);
void cached_attention_cuda(const KernelArgs& args);

namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  constexpr std::string_view kName = "cached_attention";
  const ValueType &q = *inputs[0], &k = *inputs[1];
  expect_attention_sizes(kName, attributes);
  const int64_t size = attributes.integer("head_size");
  expect_real(kName, "q", q);
  expect_rank(kName, "q", q, 2);
  expect_same(kName, "q", q, {q.dtype, {q.shape[0], attributes.integer("heads") * size}, q.per_token});
  expect_rank(kName, "k_cache", k, 2);
  expect_same(kName, "k_cache", k, {q.dtype, {k.shape[0], attributes.integer("kv_heads") * size}});
  expect_same(kName, "v_cache", *inputs[2], k);
  expect_scalar(kName, "start", *inputs[3], DType::kI32);
  return {q};
}

// Of a full cache.
Cost cost(TypeList inputs, TypeList outputs, const Attributes& attributes) {
  Cost result = memory_cost(inputs, outputs, attributes);
  result.flops = 4.0 * static_cast<double>(inputs[0]->shape.elems()) * static_cast<double>(inputs[1]->shape[0]);
  result.matrix_product = result.in_f32 = true;
  return result;
}

int64_t workspace_bytes(TypeList, TypeList, const Attributes& attributes, int threads) {
  return threads * TileSizes(attributes).thread_floats() * static_cast<int64_t>(sizeof(float));
}

int64_t cuda_workspace_bytes(TypeList inputs, TypeList, const Attributes& attributes) {
  return DecodeSplits(inputs[0]->shape[0], inputs[1]->shape[0])
      .bytes(attributes.integer("heads"), attributes.integer("head_size"));
}

const OpDef kCachedAttention{.name = "cached_attention",
                             .infer = infer,
                             .cost = cost,
                             .workspace_bytes = workspace_bytes,
                             .cuda_workspace_bytes = cuda_workspace_bytes,
                             .cpu = cached_attention_cpu,
                             .cuda = SPILLWAY_CUDA_KERNEL(cached_attention_cuda)};

}  // namespace

ValueId cached_attention(Builder& builder, ValueId q, ValueId k_cache, ValueId v_cache, ValueId start,
                         const AttentionOptions& options) {
  return builder.append_one(kCachedAttention, {q, k_cache, v_cache, start},
                            to_attributes(options, builder.type(q).shape[0]));
}

}  // namespace spillway::ops
