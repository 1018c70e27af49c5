// Arcee's Trinity (AFMoE): norms around both branches, a gate of what attention gives, rotation in the layers with a
// window alone, feed-forwards in the first layers and mixtures with shared experts behind them.
#include <cmath>

#include "model/config_overrides.h"
#include "model/decoder/architecture.h"
#include "model/decoder/mixture_config.h"
#include "model/decoder/sliding_window.h"

namespace spillway::architectures {
namespace {

constexpr int64_t kMaxGlobalInterval = 1024;

// Throws InputError for routers of another kind, by keys of published files that transformers does not read.
void refuse_other_routers(const JsonField& json) {
  if (json["score_func"].string_or("sigmoid") != "sigmoid")
    throw json["score_func"].bad("sigmoid", "use a model whose router scores so");
  if (!json["route_norm"].boolean_or(true))
    throw json["route_norm"].bad("true", "use a model whose weights of experts are normalised");
  if (json["n_group"].integer_or(1, 0, ops::kMaxExperts) > 1)
    throw json["n_group"].bad("1", "use a model whose experts are chosen among all");
}

// The load-balancing loss is no part of transformers' model, whatever output_router_logits says.
Mixture read_router(const JsonField& json) {
  refuse_other_routers(json);
  Mixture mixture = read_mixture(json, "moe_intermediate_size");
  mixture.route.score = ops::RouteScore::kSigmoid;
  mixture.route.normalises = true;
  mixture.route.epsilon = 1e-20;
  read_route_scale(json, mixture, "route_scale");
  read_shared_experts(json, mixture, "num_shared_experts", 2);
  mixture.router = "router.gate";
  mixture.router_is_linear = true;
  mixture.choice_bias = "expert_bias";
  mixture.router_starts_as_zeros = true;
  return mixture;
}

void read_afmoe(const JsonField& json, DecoderConfig& config) {
  const bool bias = json["attention_bias"].boolean_or(false);
  set_biases(config.layers, {.qkv = bias, .output = bias});
  read_patterned_windows(json, json["global_attn_every_n_layers"].integer_or(4, 1, kMaxGlobalInterval), config, 1024);
  for (DecoderLayer& layer : config.layers) {
    if (layer.attention.window == 0) layer.attention.rope.reset();
  }
  set_mixtures_behind_dense(json, read_router(json), config, "num_dense_layers");
  if (json["mup_enabled"].boolean_or(false))
    config.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
}

}  // namespace

const Architecture kAfmoe{
    .name = "AfmoeForCausalLM",
    .model_type = "afmoe",
    .default_head_dim = 128,
    .default_max_position_embeddings = 16384,
    .norm = {.eps = 1e-5},
    .layer = {.norms = {.after_attention = "post_attention_layernorm",
                        .before_feed_forward = "pre_mlp_layernorm",
                        .after_feed_forward = "post_mlp_layernorm"},
              .attention = {.head_norm = HeadNorm::kEachHead, .has_gate = true, .gate_proj = "gate_proj"}},
    .read = read_afmoe,
    .gguf = {.name = "afmoe",
             .states_vocabulary = true,
             .head_size = GgufHeadSize::kWritten,
             .windows = GgufWindows::kPattern,
             .pattern = 4,
             .mixture = {.is_there = true,
                         .normalises = true,
                         .experts = "num_experts",
                         .states_inner_width = true,
                         .shared = GgufShared::kCount,
                         .dense = "num_dense_layers",
                         .states_gating = true,
                         .states_scale = true,
                         .scale_key = "route_scale",
                         .norm_key = "route_norm",
                         .shared_key = "num_shared_experts"},
             .rope = {.states_size = true, .turns_in_windows_only = true},
             .embedding_scale_key = "mup_enabled"}};

}  // namespace spillway::architectures
