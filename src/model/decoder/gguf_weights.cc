// The names of a decoder's weights in GGUF: a walk over its layers, as append_layer.cc appends them.
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "base/math.h"
#include "model/decoder/architecture.h"
#include "model/decoder/gguf.h"
#include "model/decoder/gguf_weight_list.h"
#include "model/decoder/parts.h"

namespace spillway {

GgufWeightList::GgufWeightList(const DecoderConfig& config)
    : config_(config),
      family_(config.architecture->gguf),
      norm_shift_(static_cast<float>(config.architecture->norm.weight_shift)),
      is_interleaved_(family_.rope.turns_neighbours && config.architecture->rope.layout == ops::RopeLayout::kHalves) {}

void GgufWeightList::add_embedding() {
  add("token_embd.weight", kEmbedding, {config_.vocab_size, config_.hidden_size}).parts[0].factors =
      folded({config_.embedding_scale});
  add_layer_inputs();
}

void GgufWeightList::add_layer_inputs() {
  const int64_t width = config_.layers.empty() ? 0 : config_.layers.front().input_width;
  if (width == 0) return;
  const int64_t columns = std::ssize(config_.layers) * width;
  add("per_layer_token_embd.weight", kLayerEmbedding, {config_.vocab_size, columns});
  linear("per_layer_model_proj", "model.per_layer_model_projection", columns, config_.hidden_size, false);
  norm("per_layer_proj_norm", "model.per_layer_projection_norm", width);
}

void GgufWeightList::add_layer_input(int64_t width) {
  if (width == 0) return;
  linear("inp_gate", "per_layer_input_gate", width, config_.hidden_size, false);
  linear("proj", "per_layer_projection", config_.hidden_size, width, false);
  norm("post_norm", "post_per_layer_input_norm", config_.hidden_size);
}

void GgufWeightList::add_head() {
  gguf_ = name_ = "";
  norm(family_.final_norm, config_.architecture->final_norm, config_.hidden_size);
  if (config_.tie_word_embeddings) return;
  add("output.weight", kHead, {config_.vocab_size, config_.hidden_size}).parts[0].factors =
      folded({config_.logit_scale});
}

void GgufWeightList::add_layer(const DecoderLayer& layer) {
  const int64_t hidden = config_.hidden_size;
  gguf_ = fmt::format("blk.{}.", layer_);
  name_ = layer_prefix(layer_++);
  norm("attn_norm", layer.norms.before_attention, hidden);
  if (layer.convolution) add_convolution(*layer.convolution);
  if (layer.delta)
    layer.delta->heads.rule == ops::StateRule::kAdds ? add_state_space(*layer.delta) : add_delta(*layer.delta);
  if (layer.scan) add_scan(*layer.scan);
  if (layer.has_attention) add_attention(layer.attention);
  norm("post_attention_norm", layer.norms.after_attention, hidden);
  // A layer of one part has one norm.
  if (layer.norms.before_feed_forward != layer.norms.before_attention)
    norm(family_.norm_before_feed_forward, layer.norms.before_feed_forward, hidden);
  if (family_.is_norm_bare) list_.back().gguf = fmt::format("{}{}", gguf_, family_.norm_before_feed_forward);
  if (layer.has_feed_forward)
    add_feed_forward(layer.feed_forward, layer.mixture && family_.mixture.shares_feed_forward ? "_shexp" : "");
  norm("post_ffw_norm_1", layer.norms.after_dense, hidden);
  norm("pre_ffw_norm_2", layer.norms.before_mixture, hidden);
  if (layer.mixture) add_mixture(*layer.mixture);
  norm("post_ffw_norm_2", layer.norms.after_mixture, hidden);
  norm("post_ffw_norm", layer.norms.after_feed_forward, hidden);
  add_layer_input(layer.input_width);
  if (layer.has_scalar) add("layer_output_scale.weight", "layer_scalar", {1});
}

void GgufWeightList::add_attention(const Attention& attention) {
  attention.latent ? add_latent_heads(attention) : add_heads(attention);
  linear("attn_output", fmt::format("{}.{}", attention.module, attention.output_proj), config_.hidden_size,
         attention.output_width(), attention.output_bias, 0, {attention.output_scale});
  if (attention.has_sinks) add("attn_sinks.weight", fmt::format("{}.sinks", attention.module), {attention.heads});
  if (!attention.head_norm) return;
  const bool each = *attention.head_norm == HeadNorm::kEachHead;
  norm("attn_q_norm", fmt::format("{}.{}", attention.module, attention.query_norm),
       each ? attention.head_dim : attention.query_width());
  if (attention.keys_of) return unread_.push_back(gguf_ + "attn_k_norm.weight");
  norm("attn_k_norm", fmt::format("{}.{}", attention.module, attention.key_norm),
       each ? attention.head_dim : attention.key_width());
}

void GgufWeightList::add_heads(const Attention& attention) {
  const int64_t queries = attention.query_width(), keys = attention.key_width(), hidden = config_.hidden_size;
  const bool bias = attention.qkv_bias;
  if (attention.is_fused) return linear("attn_qkv", "self_attn.qkv_proj", queries + 2 * keys, hidden, bias);
  const bool own_gate = !attention.gate_proj.empty();
  const std::string module = fmt::format("{}.", attention.module);
  linear("attn_q", module + "q_proj", attention.has_gate && !own_gate ? 2 * queries : queries, hidden, bias,
         attention.heads, {attention.input_scale});
  add_keys(attention);
  if (own_gate) linear("attn_gate", module + std::string(attention.gate_proj), queries, hidden, false);
}

// Published files have keys and values of layers that take those of others, too.
void GgufWeightList::add_keys(const Attention& attention) {
  if (attention.keys_of) {
    for (const std::string_view name : {"attn_k.weight", "attn_v.weight"})
      unread_.push_back(fmt::format("{}{}", gguf_, name));
    return;
  }
  const int64_t keys = attention.key_width(), hidden = config_.hidden_size;
  const std::string module = fmt::format("{}.", attention.module);
  const bool bias = attention.qkv_bias;
  // A score is linear in its key.
  const double of_keys = attention.scale * std::sqrt(static_cast<double>(attention.head_dim));
  linear("attn_k", module + "k_proj", keys, hidden, bias, attention.kv_heads, {of_keys, attention.input_scale});
  if (!attention.values_are_keys) linear("attn_v", module + "v_proj", keys, hidden, bias, 0, {attention.input_scale});
}

// llama.cpp multiplies queries by the part of kv_b_proj that makes keys, and what heads see by the part that makes
// values: the first is transposed, head by head.
void GgufWeightList::add_latent_heads(const Attention& attention) {
  const LatentHeads& latent = *attention.latent;
  const int64_t hidden = config_.hidden_size, heads = attention.heads, rank = latent.key_rank;
  const int64_t plain = attention.head_dim - latent.rotated, values = latent.value_dim;
  if (latent.query_rank == 0) {
    linear("attn_q", "self_attn.q_proj", attention.query_width(), hidden, false);
  } else {
    linear("attn_q_a", "self_attn.q_a_proj", latent.query_rank, hidden, attention.qkv_bias);
    norm("attn_q_a_norm", "self_attn.q_a_layernorm", latent.query_rank);
    linear("attn_q_b", "self_attn.q_b_proj", attention.query_width(), latent.query_rank, false);
  }
  linear("attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa", rank + latent.rotated, hidden, attention.qkv_bias);
  norm("attn_kv_a_norm", "self_attn.kv_a_layernorm", rank);
  const GgufPart both = part("self_attn.kv_b_proj.weight", {heads * (plain + values), rank});
  const int64_t head = (plain + values) * rank;
  GgufPart of_keys = both, of_values = both;
  of_keys.axes = {{heads, head}, {rank, 1}, {plain, rank}};
  of_values.first = plain * rank;
  of_values.axes = {{heads, head}, {values, rank}, {rank, 1}};
  add("attn_k_b.weight", {heads, rank, plain}, {of_keys});
  add("attn_v_b.weight", {heads, values, rank}, {of_values});
}

void GgufWeightList::add_feed_forward(const FeedForward& mlp, std::string_view suffix) {
  const int64_t inner = mlp.inner, hidden = config_.hidden_size;
  const auto module = [&](std::string_view projection) { return fmt::format("{}.{}", mlp.module, projection); };
  const auto gguf = [&](std::string_view name) { return fmt::format("{}{}", name, suffix); };
  if (mlp.is_fused && family_.splits_gate_up) {
    const GgufPart both = part(fmt::format("{}.weight", module(mlp.fused_proj)), {2 * inner, hidden});
    add(gguf("ffn_gate") + ".weight", {inner, hidden}, {rows(both, 0, {{inner, 1}})});
    add(gguf("ffn_up") + ".weight", {inner, hidden}, {rows(both, inner, {{inner, 1}})});
  } else if (mlp.is_fused) {
    linear(gguf("ffn_up"), module(mlp.fused_proj), 2 * inner, hidden, mlp.bias);
  } else {
    if (mlp.has_gate) linear(gguf("ffn_gate"), module(mlp.gate_proj), inner, hidden, mlp.bias, 0, {mlp.gate_scale});
    linear(gguf("ffn_up"), module(mlp.up_proj), inner, hidden, mlp.bias);
  }
  linear(gguf("ffn_down"), module(mlp.down_proj), hidden, inner, mlp.bias, 0, {mlp.output_scale});
  if (mlp.activation == Activation::kXielu) add_activation(mlp);
}

// The trained ones are [1] in the model's files, the others [].
void GgufWeightList::add_activation(const FeedForward& mlp) {
  struct Number {
    std::string_view key, name;
    std::vector<int64_t> shape;
  };
  const Number numbers[] = {{"xielu.alpha_n", "alpha_n", {1}},
                            {"xielu.alpha_p", "alpha_p", {1}},
                            {"xielu.beta", "beta", {}},
                            {"xielu.eps", "eps", {}}};
  if (numbers_.empty())
    for (const Number& number : numbers) numbers_.push_back({std::string(number.key), {}});
  for (size_t i = 0; i < numbers_.size(); ++i)
    numbers_[i].parts.push_back(part(fmt::format("{}.act_fn.{}", mlp.module, numbers[i].name), numbers[i].shape));
}

GgufPart GgufWeightList::part(std::string_view name, std::vector<int64_t> shape) const {
  return {.name = config_.names.in_files(fmt::format("{}{}", name_, name)), .shape = std::move(shape)};
}

GgufPart GgufWeightList::rows(GgufPart part, int64_t first, std::vector<GgufAxis> axes) {
  const int64_t row = div_exact(part.elems_in_files(), part.shape[0]);
  part.first = first * row;
  for (GgufAxis& axis : axes) axis.stride *= row;
  part.axes = std::move(axes);
  part.axes.push_back({row, 1});
  return part;
}

// llama.cpp rotates neighbouring rows of a head, Hugging Face rows i and i + size / 2. So its converter interleaves the
// two halves of what turns of each head.
std::vector<GgufPart> GgufWeightList::interleaved(GgufPart part, int64_t heads) const {
  if (!is_interleaved_ || heads == 0) return {std::move(part)};
  const int64_t head = div_exact(part.shape[0], heads), turned = rotary_size(config_.ropes.front(), head);
  if (turned == head) return {rows(std::move(part), 0, {{heads, head}, {head / 2, 1}, {2, head / 2}})};
  std::vector<GgufPart> parts;
  for (int64_t first = 0; first < part.shape[0]; first += head) {
    parts.push_back(rows(part, first, {{turned / 2, 1}, {2, turned / 2}}));
    parts.push_back(rows(part, first + turned, {{head - turned, 1}}));
  }
  return parts;
}

GgufWeight& GgufWeightList::add(std::string_view gguf, std::vector<int64_t> shape, std::vector<GgufPart> parts) {
  return list_.emplace_back(
      GgufWeight{.gguf = fmt::format("{}{}", gguf_, gguf), .shape = std::move(shape), .parts = std::move(parts)});
}

GgufWeight& GgufWeightList::add(std::string_view gguf, std::string_view name, const std::vector<int64_t>& shape) {
  return add(gguf, shape, {part(name, shape)});
}

void GgufWeightList::norm(std::string_view gguf, std::string_view module, int64_t width, float shift) {
  if (module.empty()) return;
  add(fmt::format("{}.weight", gguf), fmt::format("{}.weight", module), {width}).shift = shift;
  if (config_.architecture->norm.has_bias) add(fmt::format("{}.bias", gguf), fmt::format("{}.bias", module), {width});
}

void GgufWeightList::linear(std::string_view gguf, std::string_view module, int64_t rows, int64_t columns, bool bias,
                            int64_t turned_heads, const std::vector<double>& scales) {
  const auto add_part = [&](std::string_view kind, const std::vector<int64_t>& shape) -> GgufWeight& {
    return add(fmt::format("{}.{}", gguf, kind), shape,
               interleaved(part(fmt::format("{}.{}", module, kind), shape), turned_heads));
  };
  for (GgufPart& one : add_part("weight", {rows, columns}).parts) one.factors = folded(scales);
  if (bias) add_part("bias", {rows});
}

std::vector<float> GgufWeightList::folded(const std::vector<double>& scales) const {
  std::vector<float> factors;
  for (const double scale : scales)
    if (const auto factor = static_cast<float>(scale); family_.folds_scales && factor != 1) factors.push_back(factor);
  return factors;
}

void GgufWeightList::move_into(GgufDescription& result) {
  result.weights = std::move(list_);
  result.numbers = std::move(numbers_);
  result.unread = std::move(unread_);
}

void add_gguf_weights(const DecoderConfig& config, GgufDescription& result) {
  GgufWeightList list(config);
  list.add_embedding();
  for (const DecoderLayer& layer : config.layers) list.add_layer(layer);
  list.add_head();
  list.move_into(result);
}

}  // namespace spillway
