#include "model/decoder/parts.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/index.h"
#include "model/decoder/architecture.h"
#include "ops/add/add.h"
#include "ops/embedding/embedding.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rope/rope.h"
#include "ops/split_columns/split_columns.h"
#include "ops/swiglu/swiglu.h"

namespace spillway {

std::string layer_prefix(int64_t layer) { return fmt::format("model.layers.{}.", layer); }

DecoderParts::DecoderParts(Layers& layers, const DecoderConfig& config, ValueId positions)
    : layers_(layers), config_(config), positions_(positions) {
  const auto is_local = [&](int64_t window) { return config.local_rope && window > 0; };
  const std::vector<int64_t>& windows = config.sliding_window;
  if (!std::all_of(windows.begin(), windows.end(), is_local))
    inv_freq_ = layers.constant("rope.inv_freq", rope_inverse_frequencies(config.rope, config.head_dim));
  if (std::any_of(windows.begin(), windows.end(), is_local)) {
    local_inv_freq_ =
        layers.constant("rope.local_inv_freq", rope_inverse_frequencies(*config.local_rope, config.head_dim));
  }
  // Old Llama files keep them.
  layers.parameters().ignore_ending("rotary_emb.inv_freq");
}

ValueId DecoderParts::embed(ValueId ids) {
  Parameter embedding = vocabulary_weight(ParameterRole::kEmbedding, kEmbedding, kEmbedding);
  if (config_.tie_word_embeddings || config_.copies_head) embedding.copy_in_files = layers_.names().in_files(kHead);
  embedding_ = layers_.add(std::move(embedding)).value();
  double scale = 1;
  if (config_.architecture->scales_embedding) {
    const auto root = static_cast<float>(std::sqrt(static_cast<double>(config_.hidden_size)));
    scale = layers_.builder().type(embedding_).dtype == DType::kBF16 ? to_float(to_bf16(root)) : root;
  }
  return ops::embedding(layers_.builder(), ids, embedding_, scale);
}

ValueId DecoderParts::norm(ValueId x, const std::string& module) { return norm(x, module, config_.hidden_size); }

ValueId DecoderParts::norm(ValueId x, const std::string& module, int64_t width) {
  return ops::rms_norm(layers_.builder(), x, layers_.weight(ParameterRole::kNorm, module, {width}),
                       config_.rms_norm_eps, config_.architecture->norm_weight_shift);
}

LinearLayer DecoderParts::attention_layer(int64_t layer, std::string_view name, int64_t heads) const {
  return {.module = fmt::format("{}self_attn.{}", layer_prefix(layer), name),
          .in_features = config_.hidden_size,
          .out_features = heads * config_.head_dim,
          .bias = config_.qkv_bias};
}

AttentionHeads DecoderParts::project_heads(int64_t layer, ValueId x) {
  const auto project = [&](std::string_view name, int64_t heads) {
    return layers_.linear(attention_layer(layer, name, heads), x);
  };
  return {.q = project("q_proj", config_.num_attention_heads),
          .k = project("k_proj", config_.num_key_value_heads),
          .v = project("v_proj", config_.num_key_value_heads)};
}

AttentionHeads DecoderParts::project_fused_heads(int64_t layer, ValueId x) {
  const int64_t heads = config_.num_attention_heads, kv_heads = config_.num_key_value_heads;
  const ValueId all = layers_.linear(attention_layer(layer, "qkv_proj", heads + 2 * kv_heads), x);
  const std::vector<ValueId> parts = ops::split_columns(
      layers_.builder(), all, {heads * config_.head_dim, kv_heads * config_.head_dim, kv_heads * config_.head_dim});
  return {.q = parts[0], .k = parts[1], .v = parts[2]};
}

void DecoderParts::normalise_heads(int64_t layer, AttentionHeads& heads) {
  heads.q = norm(heads.q, layer_prefix(layer) + "self_attn.q_norm", config_.head_dim);
  heads.k = norm(heads.k, layer_prefix(layer) + "self_attn.k_norm", config_.head_dim);
}

void DecoderParts::rotate_heads(int64_t layer, AttentionHeads& heads) {
  const bool is_local = config_.local_rope && nth(config_.sliding_window, layer) > 0;
  const ValueId inv_freq = is_local ? local_inv_freq_ : inv_freq_;
  heads.q = ops::rope(layers_.builder(), heads.q, positions_, inv_freq, config_.head_dim);
  heads.k = ops::rope(layers_.builder(), heads.k, positions_, inv_freq, config_.head_dim);
}

ValueId DecoderParts::project_output(int64_t layer, ValueId attended, ValueId residual) {
  return layers_.linear({.module = layer_prefix(layer) + "self_attn.o_proj",
                         .in_features = config_.num_attention_heads * config_.head_dim,
                         .out_features = config_.hidden_size,
                         .bias = config_.output_bias},
                        attended, residual);
}

LinearLayer DecoderParts::mlp_layer(int64_t layer, std::string_view name, int64_t in, int64_t out) const {
  return {fmt::format("{}mlp.{}", layer_prefix(layer), name), in, out, config_.mlp_bias};
}

ValueId DecoderParts::mlp(int64_t layer, ValueId x, ValueId residual) {
  const int64_t hidden = config_.hidden_size, inner = config_.intermediate_size;
  const ValueId gate = layers_.linear(mlp_layer(layer, "gate_proj", hidden, inner), x);
  const ValueId up = layers_.linear(mlp_layer(layer, "up_proj", hidden, inner), x);
  return gated(layer, gate, up, residual);
}

ValueId DecoderParts::fused_mlp(int64_t layer, ValueId x, ValueId residual) {
  const int64_t inner = config_.intermediate_size;
  const ValueId both = layers_.linear(mlp_layer(layer, "gate_up_proj", config_.hidden_size, 2 * inner), x);
  const std::vector<ValueId> parts = ops::split_columns(layers_.builder(), both, {inner, inner});
  return gated(layer, parts[0], parts[1], residual);
}

ValueId DecoderParts::gated(int64_t layer, ValueId gate, ValueId up, ValueId residual) {
  const bool is_silu = config_.architecture->activation == GatedActivation::kSilu;
  const ValueId inner = (is_silu ? ops::swiglu : ops::geglu)(layers_.builder(), gate, up);
  return layers_.linear(mlp_layer(layer, "down_proj", config_.intermediate_size, config_.hidden_size), inner, residual);
}

ValueId DecoderParts::join(ValueId residual, ValueId branch) { return ops::add(layers_.builder(), residual, branch); }

ValueId DecoderParts::head() {
  if (config_.score)
    return score(ParameterRole::kScore, {config_.score->labels, config_.hidden_size}, config_.initializer_range);
  if (config_.tie_word_embeddings) return embedding_;
  return layers_.add(vocabulary_weight(ParameterRole::kHead, kHead, config_.copies_head ? kEmbedding : kHead)).value();
}

ValueId DecoderParts::head_bias() {
  if (!config_.score || !config_.score->has_bias) return kNone;
  return score(ParameterRole::kScoreBias, {config_.score->labels}, 0);
}

ValueId DecoderParts::score(ParameterRole role, const Shape& shape, double start_deviation) {
  Parameter score = layers_.base_parameter(role, "score", shape);
  score.start_deviation = start_deviation;
  if (config_.has_new_score) {  // random numbers that nobody trains would score nothing
    score.trained = true;
    score.source = {};
    layers_.parameters().ignore_ending(layers_.names().in_files(kHead));
  }
  return layers_.add(std::move(score)).value();
}

Parameter DecoderParts::vocabulary_weight(ParameterRole role, std::string_view name, std::string_view source) const {
  const int64_t stored = config_.stored_vocab_size.value_or(config_.vocab_size);
  const std::string module(name.substr(0, name.rfind('.')));
  Parameter result = layers_.base_parameter(role, module, {config_.vocab_size, config_.hidden_size});
  result.source = {layers_.names().in_files(source), {stored, config_.hidden_size}};
  return result;
}

}  // namespace spillway
