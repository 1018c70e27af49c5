// Bamba: Llama with Mamba-2's state spaces in place of attention in most layers, and a rope on half of each head.
#include <vector>

#include "base/index.h"
#include "model/decoder/architecture.h"
#include "model/decoder/state_space_config.h"

namespace spillway::architectures {
namespace {

void read_bamba(const JsonField& json, DecoderConfig& config) {
  if (json["partial_rotary_factor"].real_or(0.5, 0, 1) != 0.5)
    throw json["partial_rotary_factor"].bad("0.5", "remove it: transformers takes that whatever stands here");
  const bool bias = json["attention_bias"].boolean_or(false);
  set_biases(config.layers, {bias, bias, json["mlp_bias"].boolean_or(false)});
  const GatedDelta space = read_state_space(json, {}, config.hidden_size);
  const auto layers = std::ssize(config.layers);
  std::vector<bool> attends(config.layers.size(), false);
  if (const JsonField listed = json["attn_layer_indices"]; !listed.is_null())
    for (const JsonField& layer : listed.elements()) nth(attends, layer.integer(0, layers - 1)) = true;
  for (int64_t i = 0; i < layers; ++i) {
    if (nth(attends, i)) continue;
    nth(config.layers, i).replace_attention(space);
    nth(config.layers, i).attention.rope.reset();
  }
  note_dropout(json, "z_loss_coefficient", config);  // a loss beside the cross-entropy
}

// To llama.cpp a Granite 4 without its multipliers, which tell the two apart.
constexpr GgufFamily kBambaGguf{
    .name = "granitehybrid",
    .lists_keys = true,
    .states_vocabulary = true,
    .head_size = GgufHeadSize::kImplied,
    .heads_fill_rows = true,
    .biases = {.qkv = true, .output = true, .feed_forward = true, .vary = true},
    .space = {.is_there = true, .expand = 2, .layers_with_attention = "attn_layer_indices", .always_adds_bias = true},
    .rope = {.turns_neighbours = true, .states_size = true, .always_turns = true}};

}  // namespace

const Architecture kBamba{
    .name = "BambaForCausalLM",
    .model_type = "bamba",
    .default_kv_heads = 8,
    .default_max_position_embeddings = 262144,
    .default_pad_token_id = 0,
    .norm = {.eps = 1e-5},
    .rope = {.is_partial = true, .partial_rotary_factor = 0.5},
    .final_norm = "model.final_layernorm",
    .layer = {.norms = {.before_feed_forward = "pre_ff_layernorm"}, .feed_forward = {.module = "feed_forward"}},
    .read = read_bamba,
    .gguf = kBambaGguf};

}  // namespace spillway::architectures
