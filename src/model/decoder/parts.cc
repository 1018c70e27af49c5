#include "model/decoder/parts.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "base/index.h"
#include "base/sizes.h"
#include "model/decoder/architecture.h"
#include "ops/add/add.h"
#include "ops/embedding/embedding.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/scale/scale.h"
#include "ops/split_columns/split_columns.h"

namespace spillway {
namespace {

// Returns what the names of all tensors in files begin with but those of layers behind the model's own.
std::vector<std::string> own_beginnings(const DecoderConfig& config, const WeightNames& names) {
  std::vector<std::string> result;
  const std::string norm = fmt::format("{}.", config.architecture->final_norm);
  for (const std::string_view outside :
       {std::string_view("model.embed_tokens."), std::string_view(norm), std::string_view("lm_head.")})
    result.push_back(names.in_files(outside));
  for (int64_t layer = 0; layer < std::ssize(config.layers); ++layer)
    result.push_back(names.in_files(layer_prefix(layer)));
  return result;
}

// Files may hold projections of keys and values for layers that take another layer's; no forward pass reads them.
void ignore_shared_keys(const DecoderConfig& config, Layers& layers) {
  for (int64_t layer = 0; layer < std::ssize(config.layers); ++layer) {
    if (!nth(config.layers, layer).attention.keys_of) continue;
    for (const std::string_view unread :
         {"k_proj.weight", "v_proj.weight", "k_proj.bias", "v_proj.bias", "k_norm.weight"})
      layers.parameters().ignore_ending(
          layers.names().in_files(fmt::format("{}self_attn.{}", layer_prefix(layer), unread)));
  }
}

// Returns true if transformers' Trainer takes a module for a norm: "norm" is all of its name or the end behind "_", or
// it is called a layernorm.
bool is_called_norm(std::string_view module) {
  const std::string_view name = module.substr(module.rfind('.') + 1);
  return name == "norm" || name.ends_with("_norm") || name.find("layernorm") != std::string_view::npos;
}

}  // namespace

DecoderParts::DecoderParts(Layers& layers, const DecoderConfig& config, const RotationInputs& inputs)
    : layers_(layers), config_(config), inputs_(inputs), rotations_(config.ropes.size()) {
  for (size_t i = 0; i < rotations_.size(); ++i) {
    for (const DecoderLayer& layer : config.layers) {
      if (rotations_[i] || layer.attention.rope != i) continue;
      rotations_[i] =
          rotation(i == 0 ? "rope.inv_freq" : "rope.local_inv_freq", config.ropes[i], layer.attention.rope_dim());
    }
  }
  for (const DecoderLayer& layer : config.layers) {
    const Attention& attention = layer.attention;
    if (still_ != kNone || !attention.latent || !config.architecture->rope.scales_queries) continue;
    const int64_t pairs = (attention.head_dim - attention.latent->rotated) / 2;
    still_ = layers.constant("rope.still", make_vector<float>(pairs, 0.0F));
  }
  for (const DecoderLayer& layer : config.layers)
    if (layer.attention.normalises_values) add_ones(layer.attention.head_dim);
  for (const DecoderLayer& layer : config.layers) {
    const std::optional<GatedDelta>& delta = layer.delta;
    if (!delta || delta->heads.rule != ops::StateRule::kAdds || delta->norm == StateNorm::kAbsent) continue;
    if (delta->heads.key_heads > 1) add_ones(delta->value_width() / delta->heads.key_heads);
  }
  // Old Llama files keep them.
  layers.parameters().ignore_ending("rotary_emb.inv_freq");
  ignore_shared_keys(config, layers);
  if (config.has_unread_layers) layers.parameters().set_own_beginnings(own_beginnings(config, layers.names()));
}

// The names tell apart what differs, since the graphs of a job share constants by their names.
DecoderParts::Rotation DecoderParts::rotation(std::string name, const RopeConfig& rope, int64_t head_dim) {
  const int64_t original = rope.original_max_position_embeddings;
  const bool may_be_long = rope.type == RopeType::kLongrope && inputs_.longest > original;
  const bool is_by_length = may_be_long && inputs_.seq_offsets != kNone;
  std::vector<float> angles = rope_inverse_frequencies(rope, head_dim, may_be_long && !is_by_length);
  if (is_by_length) {
    const std::vector<float> of_long = rope_inverse_frequencies(rope, head_dim, true);
    angles.insert(angles.end(), of_long.begin(), of_long.end());
  }
  if (may_be_long) name += is_by_length ? "_by_length" : "_long";
  Rotation result{.inv_freq = layers_.constant(std::move(name), std::move(angles)),
                  .options = {.head_size = head_dim,
                              .layout = config_.architecture->rope.layout,
                              .attention_scaling = rope.attention_factor}};
  if (is_by_length) result.by_length = {.offsets = inputs_.seq_offsets, .max_short = original};
  return result;
}

ValueId DecoderParts::embed(ValueId ids) {
  Parameter embedding = vocabulary_weight(ParameterRole::kEmbedding, kEmbedding, kEmbedding, config_.hidden_size);
  if (config_.tie_word_embeddings || config_.copies_head) embedding.copy_in_files = layers_.names().in_files(kHead);
  embedding.is_table = !config_.tie_word_embeddings || config_.score.has_value();
  embedding_ = layers_.add(std::move(embedding)).value();
  return layers_.with_noise(look_up(ids, embedding_, config_.embedding_scale), inputs_.seq_offsets);
}

ValueId DecoderParts::look_up(ValueId ids, ValueId table, double exact_scale) {
  auto scale = static_cast<float>(exact_scale);
  if (config_.architecture->rounds_embedding_scale && layers_.builder().type(table).dtype == DType::kBF16)
    scale = to_float(to_bf16(scale));
  const std::optional<FakeQuantisation>& fake = layers_.options().fake_quantisation;
  if (fake && fake->has_embedding) table = layers_.fake_quantised_weight(table);
  return ops::embedding(layers_.builder(), ids, table, {.scale = scale, .padding_idx = config_.padding_idx});
}

// Half of the variance comes from the row, half from the projection.
void DecoderParts::add_layer_inputs(ValueId ids, ValueId embedded) {
  const int64_t width = config_.layers.empty() ? 0 : config_.layers.front().input_width;
  const int64_t hidden = config_.hidden_size;
  if (width == 0) return;
  Builder& builder = layers_.builder();
  const int64_t columns = std::ssize(config_.layers) * width;
  Parameter table = vocabulary_weight(ParameterRole::kEmbedding, kLayerEmbedding, kLayerEmbedding, columns);
  table.is_table = true;
  const ValueId rows = look_up(ids, layers_.add(std::move(table)).value(), std::sqrt(static_cast<double>(width)));
  const ValueId projected = layers_.linear({"model.per_layer_model_projection", hidden, columns}, embedded);
  const ValueId scaled = ops::scale(builder, projected, 1 / std::sqrt(static_cast<double>(hidden)));
  const ValueId sum = ops::add(builder, norm(scaled, "model.per_layer_projection_norm", width), rows);
  const ValueId inputs = ops::scale(builder, sum, std::sqrt(0.5));
  const std::vector<int64_t> widths(config_.layers.size(), width);
  layer_inputs_ = widths.size() == 1 ? std::vector{inputs} : ops::split_columns(builder, inputs, widths);
}

ValueId DecoderParts::norm(ValueId x, const std::string& module) { return norm(x, module, config_.hidden_size); }

ValueId DecoderParts::norm(ValueId x, const std::string& module, int64_t width) {
  return norm(x, module, width, config_.norm_eps);
}

ValueId DecoderParts::norm(ValueId x, const std::string& module, int64_t width, double eps) {
  const NormDefaults& norm = config_.architecture->norm;
  Parameter parameter = layers_.base_parameter(ParameterRole::kNorm, module, {width});
  parameter.is_called_norm = is_called_norm(module);
  const ValueId weight = layers_.add(std::move(parameter)).value();
  if (norm.kind == NormKind::kLayer) {
    const ValueId bias = norm.has_bias ? layers_.weight(ParameterRole::kBias, module, {width}) : kNone;
    return ops::layer_norm(layers_.builder(), x, weight, bias, eps, norm.weight_shift);
  }
  return ops::rms_norm(layers_.builder(), x, weight, eps, norm.weight_shift);
}

void DecoderParts::add_ones(int64_t width) {
  const auto [ones, is_new] = ones_.try_emplace(width, kNone);
  if (!is_new) return;
  auto weight = make_vector<float>(width);
  std::fill(weight.begin(), weight.end(), 1.0f);
  ones->second = layers_.constant(fmt::format("norm.ones_{}", width), std::move(weight));
}

ValueId DecoderParts::plain_norm(ValueId x, int64_t width) {
  return ops::rms_norm(layers_.builder(), x, ones_.at(width), config_.norm_eps);
}

void DecoderParts::rotate(AttentionHeads& heads, size_t rope) {
  const Rotation& rotation = *rotations_[rope];
  const RopeConfig& config = config_.ropes[rope];
  const auto rotated = [&](ValueId x, const ops::RopeOptions& options) {
    return ops::rope(layers_.builder(), x, inputs_.positions, rotation.inv_freq, options, rotation.by_length);
  };
  heads.q = rotated(heads.q, of_queries(rotation.options, config));
  if (heads.k != kNone) heads.k = rotated(heads.k, rotation.options);
}

ops::RopeOptions DecoderParts::of_queries(ops::RopeOptions options, const RopeConfig& rope) const {
  if (!config_.architecture->rope.scales_queries) return options;
  options.growth = rope.llama_4_scaling_beta;
  options.growth_length = rope.original_max_position_embeddings;
  return options;
}

ValueId DecoderParts::grown(ValueId x, int64_t width, size_t rope) {
  if (still_ == kNone) return x;
  return ops::rope(layers_.builder(), x, inputs_.positions, still_,
                   of_queries({.head_size = width}, config_.ropes[rope]));
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
  if (config_.tie_word_embeddings) return layers_.fake_quantised_weight(embedding_);
  const std::string_view source = config_.copies_head ? kEmbedding : kHead;
  return layers_.fake_quantised_weight(
      layers_.add(vocabulary_weight(ParameterRole::kHead, kHead, source, config_.hidden_size)).value());
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

Parameter DecoderParts::vocabulary_weight(ParameterRole role, std::string_view name, std::string_view source,
                                          int64_t width) const {
  const int64_t stored = config_.stored_vocab_size.value_or(config_.vocab_size);
  const std::string module(name.substr(0, name.rfind('.')));
  Parameter result = layers_.base_parameter(role, module, {config_.vocab_size, width});
  result.source = {layers_.names().in_files(source), {stored, width}};
  return result;
}

}  // namespace spillway
