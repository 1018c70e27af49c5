// Qwen2 and Qwen3 with mixtures of experts: in all layers, or in some and feed-forwards in the others. Qwen2's have an
// expert that all tokens share.
#include <string>
#include <vector>

#include "base/index.h"
#include "model/decoder/architecture.h"
#include "model/decoder/mixture_config.h"
#include "model/decoder/sliding_window.h"

namespace spillway::architectures {
namespace {

constexpr int64_t kMaxSharedInner = int64_t{1} << 20;

// Every second layer has a window where config.json lists none, if any has one.
void read_alternate_windows(const JsonField& json, DecoderConfig& config) {
  const bool has_windows = json["use_sliding_window"].boolean_or(false);
  if (!json["layer_types"].is_null() || !has_windows) return read_layer_windows(json, config);
  const int64_t window = window_of(json), end = json["max_window_layers"].integer_or(28, 0, kMaxPositions);
  for (int64_t layer = 0; layer < std::ssize(config.layers); ++layer)
    nth(config.layers, layer).attention.window = layer % 2 == 0 && layer < end ? window : 0;
}

void read_mixtures(const JsonField& json, Mixture mixture, DecoderConfig& config) {
  mixture.route.normalises = json["norm_topk_prob"].boolean_or(false);
  set_mixtures_by_step(json, mixture, config);
  read_router_training(json, kRouterAuxLossCoef, config);
}

void read_qwen2_moe(const JsonField& json, DecoderConfig& config) {
  set_biases(config.layers, {.qkv = json["qkv_bias"].boolean_or(true)});
  read_alternate_windows(json, config);
  Mixture mixture = read_mixture(json, "moe_intermediate_size");
  mixture.shared_inner = json["shared_expert_intermediate_size"].integer(1, kMaxSharedInner);
  mixture.shared_has_gate = true;
  mixture.targets_mean_experts = false;
  read_mixtures(json, mixture, config);
}

void read_qwen3_moe(const JsonField& json, DecoderConfig& config) {
  const bool bias = json["attention_bias"].boolean_or(false);
  set_biases(config.layers, {.qkv = bias, .output = bias});
  if (json["use_sliding_window"].boolean_or(false)) set_windows(window_of(json), config);
  read_mixtures(json, read_mixture(json, "moe_intermediate_size"), config);
}

}  // namespace

const Architecture kQwen2Moe{
    .name = "Qwen2MoeForCausalLM",
    .model_type = "qwen2_moe",
    .default_kv_heads = 16,
    .default_max_position_embeddings = 32768,
    .read = read_qwen2_moe,
    .gguf = {.name = "qwen2moe",
             .biases = {.qkv = true},
             .mixture = {.is_there = true, .experts = "num_experts", .states_inner_width = true}}};

const Architecture kQwen3Moe{
    .name = "Qwen3MoeForCausalLM",
    .model_type = "qwen3_moe",
    .default_kv_heads = 4,
    .default_max_position_embeddings = 32768,
    .layer = {.attention = {.head_norm = HeadNorm::kEachHead}},
    .read = read_qwen3_moe,
    .gguf = {.name = "qwen3moe",
             .head_size = GgufHeadSize::kWritten,
             .mixture = {.is_there = true, .normalises = true, .experts = "num_experts", .states_inner_width = true}}};

}  // namespace spillway::architectures
