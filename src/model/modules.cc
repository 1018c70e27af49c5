#include "model/modules.h"

#include "base/error.h"

namespace spillway {
namespace {

constexpr std::array<std::string_view, kProjections> kNames = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                                               "gate_proj", "up_proj", "down_proj"};

}  // namespace

std::string_view name_of(Projection projection) { return kNames[static_cast<size_t>(projection)]; }

std::string layer_prefix(int64_t layer) { return fmt::format("model.layers.{}.", layer); }

LinearModule linear_module(const ModelConfig& config, int64_t layer, Projection projection) {
  const int64_t hidden = config.hidden_size, ffn = config.intermediate_size;
  const int64_t query = config.num_attention_heads * config.head_dim;
  const int64_t key = config.num_key_value_heads * config.head_dim;
  const std::string prefix = layer_prefix(layer);
  const auto attention = [&](int64_t in, int64_t out, bool bias) {
    return LinearModule{fmt::format("{}self_attn.{}", prefix, name_of(projection)), in, out, bias};
  };
  const auto mlp = [&](int64_t in, int64_t out) {
    return LinearModule{fmt::format("{}mlp.{}", prefix, name_of(projection)), in, out, config.mlp_bias};
  };
  switch (projection) {
    case Projection::kQuery:
      return attention(hidden, query, config.qkv_bias);
    case Projection::kKey:
    case Projection::kValue:
      return attention(hidden, key, config.qkv_bias);
    case Projection::kOutput:
      return attention(query, hidden, config.output_bias);
    case Projection::kGate:
    case Projection::kUp:
      return mlp(hidden, ffn);
    case Projection::kDown:
      break;
  }
  return mlp(ffn, hidden);
}

std::vector<WeightSpec> model_weights(const ModelConfig& config) {
  std::vector<WeightSpec> result;
  const auto add = [&](std::string name, Shape shape) { result.push_back({std::move(name), shape}); };
  add(std::string(kEmbedding), {config.vocab_size, config.hidden_size});
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string prefix = layer_prefix(layer);
    for (int i = 0; i < kProjections; ++i) {
      const LinearModule linear = linear_module(config, layer, static_cast<Projection>(i));
      add(linear.name + ".weight", {linear.out_features, linear.in_features});
      if (linear.bias) add(linear.name + ".bias", {linear.out_features});
    }
    if (config.qk_norm) {
      add(prefix + "self_attn.q_norm.weight", {config.head_dim});
      add(prefix + "self_attn.k_norm.weight", {config.head_dim});
    }
    add(prefix + "input_layernorm.weight", {config.hidden_size});
    add(prefix + "post_attention_layernorm.weight", {config.hidden_size});
  }
  add(std::string(kFinalNorm), {config.hidden_size});
  if (!config.tie_word_embeddings) add(std::string(kHead), {config.vocab_size, config.hidden_size});
  return result;
}

bool has_weight_decay(std::string_view name) { return !name.ends_with("bias") && !name.ends_with("norm.weight"); }

}  // namespace spillway
