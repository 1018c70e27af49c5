#include "model/transformer.h"

#include <cmath>
#include <functional>
#include <utility>

#include "base/error.h"
#include "model/decoder_parts.h"
#include "ops/attention/attention.h"
#include "ops/attention/cached_attention.h"
#include "ops/cache_append/cache_append.h"
#include "ops/matmul/matmul.h"

namespace spillway {
namespace {

// What a layer attends to: the sequences of the stream, or a cache. Returns [T, heads * head_dim], or kNone where
// nothing after the keys and values is wanted.
using Attend = std::function<ValueId(int64_t layer, const AttentionHeads& heads)>;

// One decoder layer: appends its operations and returns the stream after it, [T, hidden_size], or kNone.
using Layer = ValueId (*)(DecoderParts& parts, int64_t layer, ValueId x, const Attend& attend);

// Llama, Mistral and Qwen2 differ in biases, windows and rope, which the config says.
ValueId llama_layer(DecoderParts& parts, int64_t layer, ValueId x, const Attend& attend) {
  const std::string prefix = layer_prefix(layer);
  AttentionHeads heads = parts.project_heads(layer, parts.norm(x, prefix + "input_layernorm"));
  parts.rotate_heads(heads);
  const ValueId attended = attend(layer, heads);
  if (attended == kNone) return kNone;
  x = parts.project_output(layer, attended, x);
  return parts.mlp(layer, parts.norm(x, prefix + "post_attention_layernorm"), x);
}

ValueId qwen3_layer(DecoderParts& parts, int64_t layer, ValueId x, const Attend& attend) {
  const std::string prefix = layer_prefix(layer);
  AttentionHeads heads = parts.project_heads(layer, parts.norm(x, prefix + "input_layernorm"));
  parts.normalise_heads(layer, heads);
  parts.rotate_heads(heads);
  const ValueId attended = attend(layer, heads);
  if (attended == kNone) return kNone;
  x = parts.project_output(layer, attended, x);
  return parts.mlp(layer, parts.norm(x, prefix + "post_attention_layernorm"), x);
}

Layer layer_of(Architecture architecture) {
  switch (architecture) {
    case Architecture::kLlama:
    case Architecture::kMistral:
    case Architecture::kQwen2:
      return llama_layer;
    case Architecture::kQwen3:
      break;
  }
  return qwen3_layer;
}

// Embedding, layers, final norm.
ValueId append_layers(Builder& builder, const ModelConfig& config, DecoderParts& parts, ValueId ids,
                      const Attend& attend) {
  const Layer layer = layer_of(config.architecture);
  ValueId x = parts.embed(ids);
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    builder.begin_block(fmt::format("layer {}", i));
    x = layer(parts, i, x, attend);
    builder.end_block();
  }
  return x == kNone ? kNone : parts.norm(x, "model.norm");
}

ops::AttentionOptions attention_options(const ModelConfig& config, int64_t layer) {
  return {.heads = config.num_attention_heads,
          .kv_heads = config.num_key_value_heads,
          .head_size = config.head_dim,
          .sliding_window = config.sliding_window[static_cast<size_t>(layer)],
          .scale = 1 / std::sqrt(static_cast<double>(config.head_dim))};
}

// Appends the keys and values of new tokens to a layer's caches and attends to them.
ValueId attend_to_cache(Builder& builder, const ModelConfig& config, const DecoderOptions& options,
                        const CachedDecoder& inputs, int64_t rows, CacheUse use, int64_t layer,
                        const AttentionHeads& heads) {
  const ValueType type{options.dtype, {rows, config.num_key_value_heads * config.head_dim}};
  const auto append = [&](const char* name, ValueId x) {
    const ValueId cache = builder.input(fmt::format("cache.layers.{}.{}", layer, name), type, ValueKind::kCache);
    return ops::cache_append(builder, cache, x, inputs.own);
  };
  const ops::CacheOperands cache{append("key", heads.k), append("value", heads.v), inputs.first, inputs.own};
  ops::AttentionOptions attention = attention_options(config, layer);
  attention.sequence_len = options.sequence_len;
  if (use == CacheUse::kDecode) return ops::decode_attention(builder, heads.q, cache, attention);
  if (layer + 1 == config.num_hidden_layers) return kNone;
  return ops::cached_attention(builder, heads.q, cache, attention);
}

}  // namespace

Decoder build_decoder(Builder& builder, const ModelConfig& config, const DecoderOptions& options) {
  builder.graph().tokens = options.tokens;
  const ValueType per_token{DType::kI32, {options.tokens}, true};
  Decoder decoder;
  StreamInputs& inputs = decoder.inputs;
  inputs.ids = builder.input("batch.ids", per_token, ValueKind::kBatch);
  inputs.positions = builder.input("batch.positions", per_token, ValueKind::kBatch);
  inputs.seq_offsets =
      builder.input("batch.seq_offsets", {DType::kI32, {options.max_sequences + 1}}, ValueKind::kBatch);
  if (options.lora && options.lora->dropout > 0) {
    inputs.dropout_seed = builder.input("batch.dropout_seed", {DType::kI64, {1}}, ValueKind::kBatch);
  }
  DecoderParts parts(builder, config, options);
  parts.set_stream(inputs.positions, inputs.dropout_seed);
  decoder.hidden = append_layers(builder, config, parts, inputs.ids, [&](int64_t layer, const AttentionHeads& heads) {
    ops::AttentionOptions attention = attention_options(config, layer);
    attention.sequence_len = options.sequence_len;
    return ops::attention(builder, heads.q, heads.k, heads.v, inputs.seq_offsets, attention);
  });
  decoder.head = parts.head();
  decoder.parameters = parts.parameters();
  return decoder;
}

ParameterTable decoder_parameters(const ModelConfig& config, DecoderOptions options) {
  options.tokens = options.max_sequences = 1;
  Graph graph;
  Builder builder(graph);
  ParameterTable result;
  for (Parameter parameter : build_decoder(builder, config, options).parameters) {
    parameter.values.clear();
    result.add(std::move(parameter));
  }
  return result;
}

CachedDecoder build_cached_decoder(Builder& builder, const ModelConfig& config, const DecoderOptions& options,
                                   int64_t rows, CacheUse use) {
  builder.graph().tokens = options.tokens;
  const ValueType per_token{DType::kI32, {options.tokens}, true};
  CachedDecoder decoder;
  decoder.ids = builder.input("batch.ids", per_token, ValueKind::kBatch);
  decoder.positions = builder.input("batch.positions", per_token, ValueKind::kBatch);
  decoder.first = builder.input("batch.first_rows", per_token, ValueKind::kBatch);
  decoder.own = builder.input("batch.rows", per_token, ValueKind::kBatch);
  DecoderParts parts(builder, config, options);
  parts.set_stream(decoder.positions, kNone);
  const ValueId hidden =
      append_layers(builder, config, parts, decoder.ids, [&](int64_t layer, const AttentionHeads& heads) {
        return attend_to_cache(builder, config, options, decoder, rows, use, layer, heads);
      });
  if (use == CacheUse::kDecode) {
    decoder.logits = ops::matmul(builder, hidden, parts.head(), {.transpose_b = true, .out_dtype = DType::kF32});
    builder.result(decoder.logits);
  }
  decoder.parameters = parts.parameters();
  return decoder;
}

}  // namespace spillway
