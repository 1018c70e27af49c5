#include "model/gguf/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace spillway {
namespace {

class Weights {
 public:
  explicit Weights(const GgufModel& model) {
    const int64_t queries = model.heads * model.head_dim, keys = model.kv_heads * model.head_dim;
    const int64_t hidden = model.hidden, inner = model.intermediate;
    const bool llama = model.architecture == "llama", qwen3 = model.architecture == "qwen3";
    add("token_embd.weight", "model.embed_tokens.weight", {model.vocabulary, hidden});
    for (int64_t layer = 0; layer < model.layers; ++layer) {
      gguf_ = fmt::format("blk.{}.", layer);
      name_ = fmt::format("model.layers.{}.", layer);
      add("attn_norm.weight", "input_layernorm.weight", {hidden});
      linear("attn_q", "self_attn.q_proj", queries, hidden, model.qkv_bias, llama ? model.heads : 0);
      linear("attn_k", "self_attn.k_proj", keys, hidden, model.qkv_bias, llama ? model.kv_heads : 0);
      linear("attn_v", "self_attn.v_proj", keys, hidden, model.qkv_bias);
      linear("attn_output", "self_attn.o_proj", hidden, queries, model.output_bias);
      if (qwen3) add("attn_q_norm.weight", "self_attn.q_norm.weight", {model.head_dim});
      if (qwen3) add("attn_k_norm.weight", "self_attn.k_norm.weight", {model.head_dim});
      add("ffn_norm.weight", "post_attention_layernorm.weight", {hidden});
      linear("ffn_gate", "mlp.gate_proj", inner, hidden, model.mlp_bias);
      linear("ffn_up", "mlp.up_proj", inner, hidden, model.mlp_bias);
      linear("ffn_down", "mlp.down_proj", hidden, inner, model.mlp_bias);
    }
    gguf_ = name_ = "";
    add("output_norm.weight", "model.norm.weight", {hidden});
    if (!model.tied) add("output.weight", "lm_head.weight", {model.vocabulary, hidden});
  }

  [[nodiscard]] std::vector<GgufWeight> take() { return std::move(list_); }

 private:
  void linear(std::string_view gguf, std::string_view name, int64_t rows, int64_t columns, bool bias,
              int64_t permuted_heads = 0) {
    add(fmt::format("{}.weight", gguf), fmt::format("{}.weight", name), {rows, columns}, permuted_heads);
    if (bias) add(fmt::format("{}.bias", gguf), fmt::format("{}.bias", name), {rows}, permuted_heads);
  }
  void add(std::string_view gguf, std::string_view name, std::vector<int64_t> shape, int64_t permuted_heads = 0) {
    list_.push_back(
        {fmt::format("{}{}", gguf_, gguf), fmt::format("{}{}", name_, name), std::move(shape), permuted_heads});
  }

  std::string gguf_, name_;  // prefixes
  std::vector<GgufWeight> list_;
};

// The row of Hugging Face's that stands at row i of an interleaved head.
int64_t source_row(int64_t i, int64_t head_dim) { return i % 2 == 0 ? i / 2 : head_dim / 2 + i / 2; }

}  // namespace

std::vector<GgufWeight> gguf_weights(const GgufModel& model) { return Weights(model).take(); }

void part_halves(const float* from, float* to, int64_t head_dim, int64_t row) {
  for (int64_t i = 0; i < head_dim; ++i) std::copy_n(from + i * row, row, to + source_row(i, head_dim) * row);
}

void interleave_halves(const float* from, float* to, int64_t head_dim, int64_t row) {
  for (int64_t i = 0; i < head_dim; ++i) std::copy_n(from + source_row(i, head_dim) * row, row, to + i * row);
}

}  // namespace spillway
