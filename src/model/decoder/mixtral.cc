// Mixtral: Llama with a mixture of experts in every layer.
#include "model/decoder/architecture.h"
#include "model/decoder/mixture_config.h"
#include "model/decoder/sliding_window.h"

namespace spillway::architectures {
namespace {

void read_mixtral(const JsonField& json, DecoderConfig& config) {
  if (!json["sliding_window"].is_null()) set_windows(window_of(json), config);
  Mixture mixture = read_mixture(json, "intermediate_size");
  mixture.route.normalises = true;
  mixture.module = "block_sparse_moe";
  mixture.gate_proj = "w1";
  mixture.up_proj = "w3";
  mixture.down_proj = "w2";
  set_mixtures(mixture, config);
  read_router_training(json, kRouterAuxLossCoef, config);
}

}  // namespace

const Architecture kMixtral{.name = "MixtralForCausalLM",
                            .model_type = "mixtral",
                            .default_kv_heads = 8,
                            .default_max_position_embeddings = 131072,
                            .norm = {.eps = 1e-5},
                            .rope = {.theta = 1e6},
                            .read = read_mixtral,
                            .gguf = {.name = "llama",
                                     .told_by = "expert_count",
                                     .states_vocabulary = true,
                                     .mixture = {.is_there = true, .normalises = true, .experts = "num_local_experts"},
                                     .rope = {.turns_neighbours = true, .states_size = true}}};

}  // namespace spillway::architectures
