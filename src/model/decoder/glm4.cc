// GLM-4 (0414): norms before and after each branch, gate and up as one product, and a half of each head that turns, in
// pairs of neighbours.
#include "model/decoder/architecture.h"

namespace spillway::architectures {
namespace {

void read_glm4(const JsonField& json, DecoderConfig& config) {
  set_biases(config.layers, {.qkv = json["attention_bias"].boolean_or(true)});
}

}  // namespace

const Architecture kGlm4{
    .name = "Glm4ForCausalLM",
    .model_type = "glm4",
    .default_kv_heads = 2,
    .default_head_dim = 128,
    .default_max_position_embeddings = 131072,
    .default_pad_token_id = 151329,
    .norm = {.eps = 1.5625e-7},
    .rope = {.is_partial = true, .partial_rotary_factor = 0.5, .layout = ops::RopeLayout::kPairs},
    .layer = {.norms = {.after_attention = "post_self_attn_layernorm", .after_feed_forward = "post_mlp_layernorm"},
              .feed_forward = {.is_fused = true}},
    .read = read_glm4,
    .gguf = {.name = "glm4",
             .head_size = GgufHeadSize::kWritten,
             .biases = {.qkv = true, .vary = true},
             .rope = {.turns_neighbours = true, .states_size = true}}};

}  // namespace spillway::architectures
