#include "model/decoder/parts.h"

#include <utility>
#include <vector>

#include "base/index.h"
#include "model/decoder/architecture.h"
#include "ops/activation/activation.h"
#include "ops/add/add.h"
#include "ops/embedding/embedding.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/scale/scale.h"
#include "ops/split_columns/split_columns.h"
#include "ops/swiglu/swiglu.h"

namespace spillway {

std::string layer_prefix(int64_t layer) { return fmt::format("model.layers.{}.", layer); }

DecoderParts::DecoderParts(Layers& layers, const DecoderConfig& config, const RotationInputs& inputs)
    : layers_(layers), config_(config), inputs_(inputs) {
  bool has_local = false, has_other = false;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    if (rotates(layer)) (has_local_rope(layer) ? has_local : has_other) = true;
  }
  if (has_other) rotation_ = rotation("rope.inv_freq", config.rope);
  if (has_local) local_rotation_ = rotation("rope.local_inv_freq", *config.local_rope);
  // Old Llama files keep them.
  layers.parameters().ignore_ending("rotary_emb.inv_freq");
}

// The names tell apart what differs, since the graphs of a job share constants by their names.
DecoderParts::Rotation DecoderParts::rotation(std::string name, const RopeConfig& rope) {
  const int64_t original = rope.original_max_position_embeddings;
  const bool may_be_long = rope.type == RopeType::kLongrope && inputs_.longest > original;
  const bool is_by_length = may_be_long && inputs_.seq_offsets != kNone;
  std::vector<float> angles = rope_inverse_frequencies(rope, config_.head_dim, may_be_long && !is_by_length);
  if (is_by_length) {
    const std::vector<float> of_long = rope_inverse_frequencies(rope, config_.head_dim, true);
    angles.insert(angles.end(), of_long.begin(), of_long.end());
  }
  if (may_be_long) name += is_by_length ? "_by_length" : "_long";
  Rotation result{.inv_freq = layers_.constant(std::move(name), std::move(angles)),
                  .options = {.head_size = config_.head_dim,
                              .layout = config_.architecture->rope_layout,
                              .attention_scaling = rope.attention_factor}};
  if (is_by_length) result.by_length = {.offsets = inputs_.seq_offsets, .max_short = original};
  return result;
}

ValueId DecoderParts::embed(ValueId ids) {
  Parameter embedding = vocabulary_weight(ParameterRole::kEmbedding, kEmbedding, kEmbedding);
  if (config_.tie_word_embeddings || config_.copies_head) embedding.copy_in_files = layers_.names().in_files(kHead);
  embedding.is_table = !config_.tie_word_embeddings || config_.score.has_value();
  embedding_ = layers_.add(std::move(embedding)).value();
  auto scale = static_cast<float>(config_.embedding_scale);
  if (config_.architecture->rounds_embedding_scale && layers_.builder().type(embedding_).dtype == DType::kBF16)
    scale = to_float(to_bf16(scale));
  const ValueId rows =
      ops::embedding(layers_.builder(), ids, embedding_, {.scale = scale, .padding_idx = config_.padding_idx});
  return layers_.with_noise(rows, inputs_.seq_offsets);
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
  normalise_heads(layer, heads, config_.head_dim, config_.head_dim);
}

void DecoderParts::normalise_projections(int64_t layer, AttentionHeads& heads) {
  normalise_heads(layer, heads, config_.num_attention_heads * config_.head_dim,
                  config_.num_key_value_heads * config_.head_dim);
}

void DecoderParts::normalise_heads(int64_t layer, AttentionHeads& heads, int64_t query_width, int64_t key_width) {
  heads.q = norm(heads.q, layer_prefix(layer) + "self_attn.q_norm", query_width);
  heads.k = norm(heads.k, layer_prefix(layer) + "self_attn.k_norm", key_width);
}

bool DecoderParts::rotates(int64_t layer) const { return config_.rotates.empty() || nth(config_.rotates, layer); }

bool DecoderParts::has_local_rope(int64_t layer) const {
  return config_.local_rope && nth(config_.sliding_window, layer) > 0;
}

void DecoderParts::rotate_heads(int64_t layer, AttentionHeads& heads) {
  if (!rotates(layer)) return;
  const bool is_local = has_local_rope(layer);
  const Rotation& rotation = is_local ? local_rotation_ : rotation_;
  const RopeConfig& rope = is_local ? *config_.local_rope : config_.rope;
  const auto rotate = [&](ValueId x, const ops::RopeOptions& options) {
    return ops::rope(layers_.builder(), x, inputs_.positions, rotation.inv_freq, options, rotation.by_length);
  };
  ops::RopeOptions of_queries = rotation.options;
  if (config_.architecture->scales_queries) {
    of_queries.growth = rope.llama_4_scaling_beta;
    of_queries.growth_length = rope.original_max_position_embeddings;
  }
  heads.q = rotate(heads.q, of_queries);
  heads.k = rotate(heads.k, rotation.options);
}

ValueId DecoderParts::project_output(int64_t layer, ValueId attended, ValueId residual) {
  return add_branch({.module = layer_prefix(layer) + "self_attn.o_proj",
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

ValueId DecoderParts::plain_mlp(int64_t layer, ValueId x, ValueId residual) {
  const ValueId up = layers_.linear(mlp_layer(layer, "up_proj", config_.hidden_size, config_.intermediate_size), x);
  return project_down(layer, ops::relu_squared(layers_.builder(), up), residual);
}

ValueId DecoderParts::gated(int64_t layer, ValueId gate, ValueId up, ValueId residual) {
  const bool is_silu = config_.architecture->activation == MlpActivation::kSilu;
  return project_down(layer, (is_silu ? ops::swiglu : ops::geglu)(layers_.builder(), gate, up), residual);
}

ValueId DecoderParts::project_down(int64_t layer, ValueId inner, ValueId residual) {
  return add_branch(mlp_layer(layer, "down_proj", config_.intermediate_size, config_.hidden_size), inner, residual);
}

ValueId DecoderParts::add_branch(const LinearLayer& last, ValueId x, ValueId residual) {
  if (residual == kNone || config_.residual_scale == 1) return layers_.linear(last, x, residual);
  return join(residual, layers_.linear(last, x));
}

ValueId DecoderParts::join(ValueId residual, ValueId branch) {
  return ops::add(layers_.builder(), residual, ops::scale(layers_.builder(), branch, config_.residual_scale));
}

ValueId DecoderParts::scaled_for_head(ValueId hidden) {
  return config_.score ? hidden : ops::scale(layers_.builder(), hidden, config_.logit_scale);
}

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
