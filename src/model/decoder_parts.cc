#include "model/decoder_parts.h"

#include <utility>

#include "ops/add/add.h"
#include "ops/dropout/dropout.h"
#include "ops/embedding/embedding.h"
#include "ops/matmul/matmul.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rope/rope.h"
#include "ops/swiglu/swiglu.h"

namespace spillway {

std::string layer_prefix(int64_t layer) { return fmt::format("model.layers.{}.", layer); }

DecoderParts::DecoderParts(Builder& builder, const ModelConfig& config, const DecoderOptions& options)
    : builder_(builder), config_(config), options_(options) {
  inv_freq_ = add({.name = "rope.inv_freq",
                   .role = ParameterRole::kConstant,
                   .shape = {config.head_dim / 2},
                   .content = rope_inverse_frequencies(config)})
                  .value();
}

void DecoderParts::set_stream(ValueId positions, ValueId dropout_seed) {
  positions_ = positions;
  dropout_seed_ = dropout_seed;
}

ValueId DecoderParts::embed(ValueId ids) {
  embedding_ = vocabulary_weight(ParameterRole::kEmbedding, kEmbedding, kEmbedding);
  return ops::embedding(builder_, ids, embedding_);
}

ValueId DecoderParts::norm(ValueId x, const std::string& module) { return norm(x, module, config_.hidden_size); }

ValueId DecoderParts::norm(ValueId x, const std::string& module, int64_t width) {
  return ops::rms_norm(builder_, x, weight(ParameterRole::kNorm, module, {width}), config_.rms_norm_eps);
}

AttentionHeads DecoderParts::project_heads(int64_t layer, ValueId x) {
  const auto project = [&](std::string_view name, int64_t heads) {
    return linear({.module = fmt::format("{}self_attn.{}", layer_prefix(layer), name),
                   .in_features = config_.hidden_size,
                   .out_features = heads * config_.head_dim,
                   .bias = config_.qkv_bias},
                  x);
  };
  return {.q = project("q_proj", config_.num_attention_heads),
          .k = project("k_proj", config_.num_key_value_heads),
          .v = project("v_proj", config_.num_key_value_heads)};
}

void DecoderParts::normalise_heads(int64_t layer, AttentionHeads& heads) {
  heads.q = norm(heads.q, layer_prefix(layer) + "self_attn.q_norm", config_.head_dim);
  heads.k = norm(heads.k, layer_prefix(layer) + "self_attn.k_norm", config_.head_dim);
}

void DecoderParts::rotate_heads(AttentionHeads& heads) {
  heads.q = ops::rope(builder_, heads.q, positions_, inv_freq_, config_.head_dim);
  heads.k = ops::rope(builder_, heads.k, positions_, inv_freq_, config_.head_dim);
}

ValueId DecoderParts::project_output(int64_t layer, ValueId attended, ValueId residual) {
  return linear({.module = layer_prefix(layer) + "self_attn.o_proj",
                 .in_features = config_.num_attention_heads * config_.head_dim,
                 .out_features = config_.hidden_size,
                 .bias = config_.output_bias},
                attended, residual);
}

ValueId DecoderParts::mlp(int64_t layer, ValueId x, ValueId residual) {
  const auto part = [&](std::string_view name, int64_t in, int64_t out) {
    return Linear{fmt::format("{}mlp.{}", layer_prefix(layer), name), in, out, config_.mlp_bias};
  };
  const int64_t hidden = config_.hidden_size, inner = config_.intermediate_size;
  const ValueId gate = linear(part("gate_proj", hidden, inner), x);
  const ValueId up = linear(part("up_proj", hidden, inner), x);
  return linear(part("down_proj", inner, hidden), ops::swiglu(builder_, gate, up), residual);
}

ValueId DecoderParts::head() {
  if (config_.tie_word_embeddings) return embedding_;
  return vocabulary_weight(ParameterRole::kHead, kHead, config_.copies_head ? kEmbedding : kHead);
}

ValueId DecoderParts::linear(const Linear& layer, ValueId x, ValueId residual) {
  Parameter w = parameter(ParameterRole::kLinear, layer.module, {layer.out_features, layer.in_features});
  if (!w.trained) w.storage = config_.linear_storage;
  const StorageDef& storage = *w.storage;
  const std::vector<ValueId> parts = add(std::move(w)).values;
  const ValueId update = adapter_update(layer, x);
  // In bf16 an update that came onto the finished sum would mostly be rounded away, and always one that came onto the
  // residual stream: it goes into the sums of the product, in f32, and only what they give joins the stream.
  const bool joins_late = update != kNone && residual != kNone;
  const ValueId bias = layer.bias ? weight(ParameterRole::kBias, layer.module, {layer.out_features}) : kNone;
  const ValueId y = storage.linear(builder_, x, parts, {.addend = update != kNone ? update : residual, .bias = bias});
  return joins_late ? ops::add(builder_, y, residual) : y;
}

// scale * B A dropout(x), where the module has an adapter.
ValueId DecoderParts::adapter_update(const Linear& layer, ValueId x) {
  if (!options_.lora || !is_adapted(*options_.lora, layer.module)) return kNone;
  const LoraOptions& lora = *options_.lora;
  const ValueId a = lora_weight(layer, ParameterRole::kLoraA);
  const ValueId b = lora_weight(layer, ParameterRole::kLoraB);
  if (dropout_seed_ != kNone) x = ops::dropout(builder_, x, dropout_seed_, lora.dropout, trained_);
  return ops::matmul(builder_, ops::linear(builder_, x, a), b, {.transpose_b = true, .alpha = lora.scale()});
}

Parameter DecoderParts::parameter(ParameterRole role, const std::string& module, const Shape& shape) const {
  const std::string name = module + (role == ParameterRole::kBias ? ".bias" : ".weight");
  return parameter(role, name, shape, {name, shape});
}

ValueId DecoderParts::vocabulary_weight(ParameterRole role, std::string_view name, std::string_view source) {
  const int64_t stored = config_.stored_vocab_size.value_or(config_.vocab_size);
  return add(parameter(role, std::string(name), {config_.vocab_size, config_.hidden_size},
                       {std::string(source), {stored, config_.hidden_size}}))
      .value();
}

Parameter DecoderParts::parameter(ParameterRole role, std::string name, const Shape& shape,
                                  ParameterSource source) const {
  const bool trained = options_.train_base || (options_.lora && is_saved_in_full(*options_.lora, name));
  std::string module = name.substr(0, name.rfind('.'));
  return {.name = std::move(name),
          .module = std::move(module),
          .role = role,
          .shape = shape,
          .dtype = options_.dtype,
          .trained = trained,
          .source = std::move(source)};
}

ValueId DecoderParts::lora_weight(const Linear& layer, ParameterRole role) {
  const bool is_a = role == ParameterRole::kLoraA;
  const int64_t r = options_.lora->r;
  return add({.name = lora_name(layer.module, is_a ? 'A' : 'B'),
              .module = layer.module,
              .role = role,
              .shape = is_a ? Shape{r, layer.in_features} : Shape{layer.out_features, r},
              .dtype = options_.dtype,
              .trained = true})
      .value();
}

const Parameter& DecoderParts::add(Parameter parameter) {
  const ValueKind kind = parameter.trained ? ValueKind::kTrainableWeight : ValueKind::kFrozenWeight;
  for (const StoragePart& part : parameter.storage->parts(parameter.shape, parameter.dtype)) {
    parameter.values.push_back(
        builder_.input(fmt::format("{}{}", parameter.name, part.suffix), {part.dtype, part.shape}, kind));
  }
  trained_ += parameter.trained;
  return parameters_[parameters_.add(std::move(parameter))];
}

}  // namespace spillway
