// gpt-oss: a mixture of experts in every layer, fused in its files and with biases; every second layer has no window,
// and every head has a sink.
#include "base/error.h"
#include "model/decoder/architecture.h"
#include "model/decoder/mixture_config.h"
#include "model/decoder/sliding_window.h"

namespace spillway::architectures {
namespace {

constexpr double kMaxAlpha = 1e3, kMinLimit = 1e-3, kMaxLimit = 1e6;

void read_gpt_oss(const JsonField& json, DecoderConfig& config) {
  if (json["rope_scaling"].is_null() && json["rope_parameters"].is_null()) {
    throw input_error(json.where(), "expected rope_scaling, which gpt-oss stretches its rope by, got none; add it");
  }
  const bool bias = json["attention_bias"].boolean_or(true);
  set_biases(config.layers, {.qkv = bias, .output = bias});
  read_patterned_windows(json, 2, config, 128);
  for (DecoderLayer& layer : config.layers) layer.attention.has_sinks = true;
  Mixture mixture = read_mixture(json, "intermediate_size");
  mixture.route.score = ops::RouteScore::kSoftmaxOfChosen;
  mixture.router = "router";
  mixture.fused = {.alpha = json["swiglu_alpha"].real_or(1.702, 0, kMaxAlpha),
                   .limit = json["swiglu_limit"].real_or(7, kMinLimit, kMaxLimit)};
  mixture.targets_mean_experts = false;
  set_mixtures(mixture, config);
  read_router_training(json, kRouterAuxLossCoef, config);
}

}  // namespace

const Architecture kGptOss{.name = "GptOssForCausalLM",
                           .model_type = "gpt_oss",
                           .default_kv_heads = 8,
                           .default_head_dim = 64,
                           .default_max_position_embeddings = 131072,
                           .norm = {.eps = 1e-5},
                           .rope = {.theta = 150000},
                           .read = read_gpt_oss,
                           .gguf = {.name = "gpt-oss",
                                    .norm_before_feed_forward = "post_attention_norm",
                                    .head_size = GgufHeadSize::kWritten,
                                    .head = GgufHead::kUntied,
                                    .biases = {.qkv = true, .output = true},
                                    .windows = GgufWindows::kPattern,
                                    .pattern = 2,
                                    .mixture = {.is_there = true,
                                                .experts = "num_local_experts",
                                                .states_inner_width = true,
                                                .inner = "intermediate_size"},
                                    .rope = {.reads_yarn_betas = true, .has_real_yarn_bounds = true}}};

}  // namespace spillway::architectures
