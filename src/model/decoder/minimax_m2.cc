// MiniMax M2: Mixtral's layer with norms of all heads together, part of which turns, and a router that scores each
// expert by itself and chooses by those scores plus a bias that is never trained.
#include "model/decoder/architecture.h"
#include "model/decoder/mixture_config.h"

namespace spillway::architectures {
namespace {

void read_minimax_m2(const JsonField& json, DecoderConfig& config) {
  Mixture mixture = read_mixture(json, "intermediate_size");
  mixture.route.score = ops::RouteScore::kSigmoid;
  mixture.route.normalises = true;
  mixture.module = "block_sparse_moe";
  mixture.gate_proj = "w1";
  mixture.up_proj = "w3";
  mixture.down_proj = "w2";
  mixture.choice_bias = "e_score_correction_bias";
  set_mixtures(mixture, config);
  read_router_training(json, kRouterAuxLossCoef, config);
  config.has_unread_layers = json["num_mtp_modules"].is_in_use();
}

}  // namespace

const Architecture kMiniMaxM2{.name = "MiniMaxM2ForCausalLM",
                              .model_type = "minimax_m2",
                              .default_kv_heads = 8,
                              .default_head_dim = 128,
                              .default_max_position_embeddings = 196608,
                              .rope = {.theta = 5e6, .is_partial = true, .has_rotary_dim = true},
                              .layer = {.attention = {.head_norm = HeadNorm::kAllHeads}},
                              .read = read_minimax_m2,
                              .gguf = {.name = "minimax-m2",
                                       .head_size = GgufHeadSize::kWritten,
                                       .head = GgufHead::kUntied,
                                       .mixture = {.is_there = true,
                                                   .normalises = true,
                                                   .experts = "num_local_experts",
                                                   .states_inner_width = true,
                                                   .inner = "intermediate_size",
                                                   .states_gating = true},
                                       .rope = {.states_size = true}}};

}  // namespace spillway::architectures
