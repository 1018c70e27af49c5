// OLMoE: a mixture of experts in every layer; queries and keys are normalised, all heads of a token together.
#include "base/error.h"
#include "model/decoder/architecture.h"
#include "model/decoder/mixture_config.h"

namespace spillway::architectures {
namespace {

void read_olmoe(const JsonField& json, DecoderConfig& config) {
  const bool bias = json["attention_bias"].boolean_or(false);
  set_biases(config.layers, {.qkv = bias, .output = bias});
  if (json["clip_qkv"].is_in_use())
    throw input_error(json.where(), "expected clip_qkv null, got {}; use a model without it",
                      json["clip_qkv"].number());
  Mixture mixture = read_mixture(json, "intermediate_size");
  mixture.route.normalises = json["norm_topk_prob"].boolean_or(false);
  set_mixtures(mixture, config);
  read_router_training(json, 0.01, config);
}

}  // namespace

const Architecture kOlmoe{
    .name = "OlmoeForCausalLM",
    .model_type = "olmoe",
    .default_max_position_embeddings = 4096,
    .default_pad_token_id = 1,
    .norm = {.eps = 1e-5},
    .layer = {.attention = {.head_norm = HeadNorm::kAllHeads}},
    .read = read_olmoe,
    .gguf = {.name = "olmoe", .heads_share_no_keys = true, .mixture = {.is_there = true, .experts = "num_experts"}}};

}  // namespace spillway::architectures
