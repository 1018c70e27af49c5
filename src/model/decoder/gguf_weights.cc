// The names of a decoder's weights in GGUF: a walk over its layers, as append_layer.cc appends them.
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "model/decoder/architecture.h"
#include "model/decoder/gguf.h"
#include "model/decoder/parts.h"

namespace spillway {
namespace {

class WeightList {
 public:
  explicit WeightList(const DecoderConfig& config)
      : config_(config),
        family_(config.architecture->gguf),
        norm_shift_(static_cast<float>(config.architecture->norm.weight_shift)),
        is_permuted_(family_.rope.turns_neighbours && config.architecture->rope.layout == ops::RopeLayout::kHalves) {
    add("token_embd.weight", kEmbedding, {config.vocab_size, config.hidden_size});
    for (const DecoderLayer& layer : config.layers) add_layer(layer);
    gguf_ = name_ = "";
    norm("output_norm", "model.norm", config.hidden_size);
    if (!config.tie_word_embeddings) add("output.weight", kHead, {config.vocab_size, config.hidden_size});
  }

  [[nodiscard]] std::vector<GgufWeight> take() { return std::move(list_); }

 private:
  void add_layer(const DecoderLayer& layer) {
    gguf_ = fmt::format("blk.{}.", layer_);
    name_ = layer_prefix(layer_++);
    norm("attn_norm", layer.norms.before_attention, config_.hidden_size);
    add_attention(layer.attention);
    norm("post_attention_norm", layer.norms.after_attention, config_.hidden_size);
    norm(family_.norm_before_feed_forward, layer.norms.before_feed_forward, config_.hidden_size);
    if (layer.mixture) {
      add_mixture(*layer.mixture);
    } else {
      add_feed_forward(layer.feed_forward);
    }
    norm("post_ffw_norm", layer.norms.after_feed_forward, config_.hidden_size);
  }

  void add_attention(const Attention& attention) {
    const int64_t queries = attention.query_width(), keys = attention.key_width(), hidden = config_.hidden_size;
    if (attention.is_fused) {
      linear("attn_qkv", "self_attn.qkv_proj", queries + 2 * keys, hidden, attention.qkv_bias);
    } else {
      linear("attn_q", "self_attn.q_proj", queries, hidden, attention.qkv_bias, is_permuted_ ? attention.heads : 0);
      linear("attn_k", "self_attn.k_proj", keys, hidden, attention.qkv_bias, is_permuted_ ? attention.kv_heads : 0);
      linear("attn_v", "self_attn.v_proj", keys, hidden, attention.qkv_bias);
    }
    linear("attn_output", "self_attn.o_proj", hidden, queries, attention.output_bias);
    if (!attention.head_norm) return;
    const bool each = *attention.head_norm == HeadNorm::kEachHead;
    norm("attn_q_norm", "self_attn.q_norm", each ? attention.head_dim : queries);
    norm("attn_k_norm", "self_attn.k_norm", each ? attention.head_dim : keys);
  }

  void add_feed_forward(const FeedForward& mlp) {
    const int64_t inner = mlp.inner, hidden = config_.hidden_size;
    if (mlp.is_fused) {
      linear("ffn_up", "mlp.gate_up_proj", 2 * inner, hidden, mlp.bias);
    } else {
      if (mlp.has_gate) linear("ffn_gate", "mlp.gate_proj", inner, hidden, mlp.bias);
      linear("ffn_up", "mlp.up_proj", inner, hidden, mlp.bias);
    }
    linear("ffn_down", "mlp.down_proj", hidden, inner, mlp.bias);
  }

  void add_mixture(const Mixture& mixture) {
    const int64_t hidden = config_.hidden_size;
    const std::string module(mixture.module);
    linear("ffn_gate_inp", module + ".gate", mixture.experts, hidden, false);
    list_.back().is_f32 = true;
    experts("ffn_gate_exps", mixture, mixture.gate_proj, mixture.inner, hidden);
    experts("ffn_up_exps", mixture, mixture.up_proj, mixture.inner, hidden);
    experts("ffn_down_exps", mixture, mixture.down_proj, hidden, mixture.inner);
    if (mixture.shared_inner == 0) return;
    linear("ffn_gate_inp_shexp", module + ".shared_expert_gate", 1, hidden, false);
    list_.back().is_f32 = true;
    linear("ffn_gate_shexp", module + ".shared_expert.gate_proj", mixture.shared_inner, hidden, false);
    linear("ffn_up_shexp", module + ".shared_expert.up_proj", mixture.shared_inner, hidden, false);
    linear("ffn_down_shexp", module + ".shared_expert.down_proj", hidden, mixture.shared_inner, false);
  }
  void experts(std::string_view gguf, const Mixture& mixture, std::string_view projection, int64_t rows,
               int64_t columns) {
    GgufWeight& weight = list_.emplace_back(
        GgufWeight{.gguf = fmt::format("{}{}.weight", gguf_, gguf), .shape = {mixture.experts, rows, columns}});
    for (int64_t expert = 0; expert < mixture.experts; ++expert)
      weight.experts.push_back(
          config_.names.in_files(fmt::format("{}{}.experts.{}.{}.weight", name_, mixture.module, expert, projection)));
  }

  // Adds nothing where there is no norm.
  void norm(std::string_view gguf, std::string_view module, int64_t width) {
    if (module.empty()) return;
    add(fmt::format("{}.weight", gguf), fmt::format("{}.weight", module), {width});
    list_.back().shift = norm_shift_;
  }
  void linear(std::string_view gguf, std::string_view module, int64_t rows, int64_t columns, bool bias,
              int64_t permuted_heads = 0) {
    add(fmt::format("{}.weight", gguf), fmt::format("{}.weight", module), {rows, columns});
    list_.back().permuted_heads = permuted_heads;
    if (!bias) return;
    add(fmt::format("{}.bias", gguf), fmt::format("{}.bias", module), {rows});
    list_.back().permuted_heads = permuted_heads;
  }
  void add(std::string_view gguf, std::string_view name, std::vector<int64_t> shape) {
    list_.push_back({.gguf = fmt::format("{}{}", gguf_, gguf),
                     .name = config_.names.in_files(fmt::format("{}{}", name_, name)),
                     .shape = std::move(shape)});
  }

  const DecoderConfig& config_;
  const GgufFamily& family_;
  float norm_shift_;
  bool is_permuted_;
  int64_t layer_ = 0;
  std::string gguf_, name_;  // prefixes
  std::vector<GgufWeight> list_;
};

}  // namespace

std::vector<GgufWeight> gguf_weights(const DecoderConfig& config) { return WeightList(config).take(); }

}  // namespace spillway
