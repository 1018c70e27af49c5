// GLM-4 (0414): norms before and after each branch, gate and up as one product, and a half of each head that turns, in
// pairs of neighbours.
#include "model/decoder/architecture.h"

namespace spillway::architectures {
namespace {

void read_glm4(const JsonField& json, DecoderConfig& config) {
  config.qkv_bias = json["attention_bias"].boolean_or(true);
}

void join_self_attention(DecoderParts& parts, const Attend&, LayerState& state) {
  state.stream = parts.join(state.stream, parts.norm(state.x, layer_prefix(state.layer) + "post_self_attn_layernorm"));
}

void branch_fused_mlp(DecoderParts& parts, const Attend&, LayerState& state) {
  state.x = parts.fused_mlp(state.layer, state.x, kNone);
}

void join_mlp(DecoderParts& parts, const Attend&, LayerState& state) {
  state.stream = parts.join(state.stream, parts.norm(state.x, layer_prefix(state.layer) + "post_mlp_layernorm"));
}

constexpr LayerPart kGlm4Layer[] = {layer::input_norm,          layer::project_heads, layer::rotate_heads,
                                    layer::attention,           layer::branch_output, join_self_attention,
                                    layer::post_attention_norm, branch_fused_mlp,     join_mlp};

}  // namespace

const Architecture kGlm4{.name = "Glm4ForCausalLM",
                         .model_type = "glm4",
                         .default_kv_heads = 2,
                         .default_head_dim = 128,
                         .default_max_position_embeddings = 131072,
                         .default_rms_norm_eps = 1.5625e-7,
                         .default_pad_token_id = 151329,
                         .rotates_in_part = true,
                         .default_partial_rotary_factor = 0.5,
                         .rope_layout = ops::RopeLayout::kPairs,
                         .read = read_glm4,
                         .layer = kGlm4Layer};

}  // namespace spillway::architectures
