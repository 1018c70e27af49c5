// Qwen3-Next and Qwen3.5, dense and with mixtures of experts: the gated delta rule in most layers, attention with a
// gate of what it gives in the others.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "model/decoder/architecture.h"
#include "model/decoder/layer_types.h"
#include "model/decoder/mixture_config.h"
#include "ops/causal_conv/causal_conv.h"
#include "ops/gated_delta_rule/gated_delta_rule.h"

namespace spillway::architectures {
namespace {

constexpr int64_t kMaxDeltaHeads = 4096, kMaxInterval = 1024, kMaxSharedExpert = int64_t{1} << 20;

GatedDelta read_delta(const JsonField& json) {
  GatedDelta delta{.heads = {.key_heads = json["linear_num_key_heads"].integer_or(16, 1, kMaxDeltaHeads),
                             .value_heads = json["linear_num_value_heads"].integer_or(32, 1, kMaxDeltaHeads),
                             .key_dim = json["linear_key_head_dim"].integer_or(128, 1, ops::kMaxDeltaDim),
                             .value_dim = json["linear_value_head_dim"].integer_or(128, 1, ops::kMaxDeltaDim)},
                   .taps = json["linear_conv_kernel_dim"].integer_or(4, 2, ops::kMaxTaps)};
  if (delta.heads.value_heads % delta.heads.key_heads == 0) return delta;
  throw input_error(json.where(),
                    "expected linear_num_value_heads to be a multiple of linear_num_key_heads, got {} and {}; check "
                    "both numbers",
                    delta.heads.value_heads, delta.heads.key_heads);
}

// Returns the types of layers, by layer_types or by the distance of those with attention.
std::vector<std::string> read_types(const JsonField& json, int64_t layers) {
  const int64_t interval = json["full_attention_interval"].integer_or(4, 1, kMaxInterval);
  std::vector<std::string> types;
  for (int64_t layer = 1; layer <= layers; ++layer)
    types.emplace_back(layer % interval == 0 ? "full_attention" : "linear_attention");
  return read_layer_types(json, "layer_types", std::move(types));
}

// Files may hold layers that predict several tokens (mtp), which no forward pass reads.
void read_layers_of(const JsonField& json, const GatedDelta& delta, DecoderConfig& config) {
  const bool bias = json["attention_bias"].boolean_or(false);
  set_biases(config.layers, {.qkv = bias, .output = bias});
  const auto layers = std::ssize(config.layers);
  const std::vector<std::string> types = read_types(json, layers);
  for (int64_t layer = 0; layer < layers; ++layer) {
    const std::string& type = nth(types, layer);
    if (type == "full_attention") continue;
    if (type != "linear_attention")
      throw input_error(json.where(),
                        "expected layer_types of full_attention and linear_attention, got {}; use a model without it",
                        quote(type));
    nth(config.layers, layer).replace_attention(delta);
    nth(config.layers, layer).attention.rope.reset();
  }
  config.has_unread_layers = true;
}

Mixture read_shared_mixture(const JsonField& json) {
  Mixture mixture = read_mixture(json, "moe_intermediate_size");
  mixture.shared_inner = json["shared_expert_intermediate_size"].integer_or(512, 1, kMaxSharedExpert);
  mixture.shared_has_gate = true;
  return mixture;
}

void read_qwen3_next(const JsonField& json, DecoderConfig& config) {
  GatedDelta delta = read_delta(json);
  delta.is_by_head = true;
  read_layers_of(json, delta, config);
  Mixture mixture = read_shared_mixture(json);
  mixture.route.normalises = json["norm_topk_prob"].boolean_or(true);
  set_mixtures_by_step(json, mixture, config);
  read_router_training(json, kRouterAuxLossCoef, config);
}

void read_qwen3_5(const JsonField& json, DecoderConfig& config) { read_layers_of(json, read_delta(json), config); }

void read_qwen3_5_moe(const JsonField& json, DecoderConfig& config) {
  read_layers_of(json, read_delta(json), config);
  Mixture mixture = read_shared_mixture(json);
  mixture.route.normalises = true;
  mixture.stacked.emplace();
  mixture.targets_mean_experts = false;
  set_mixtures(mixture, config);
  read_router_training(json, kRouterAuxLossCoef, config);
}

// Returns what all three have in common.
constexpr Architecture gated_qwen(std::string_view name, std::string_view model_type, int64_t kv_heads, GgufFamily gguf,
                                  void (*read)(const JsonField&, DecoderConfig&)) {
  gguf.norm_before_feed_forward = "post_attention_norm";
  gguf.state_type = "linear_attention";
  gguf.head_size = GgufHeadSize::kWritten;
  gguf.rope.states_size = true;
  return {.name = name,
          .model_type = model_type,
          .default_kv_heads = kv_heads,
          .default_head_dim = 256,
          .default_max_position_embeddings = 32768,
          .norm = {.weight_shift = 1},
          .rope = {.is_partial = true, .partial_rotary_factor = 0.25},
          .layer = {.attention = {.head_norm = HeadNorm::kEachHead, .has_gate = true}},
          .read = read,
          .gguf = gguf};
}

// Adds what Qwen3.5 has of its own, whose text_config in a larger model leaves sizes out.
constexpr Architecture qwen3_5(Architecture architecture, const Architecture::Sizes& sizes) {
  architecture.gguf.deals_value_heads = architecture.gguf.rope.has_sections = true;
  architecture.has_feed_forward = sizes.intermediate_size > 0;
  architecture.default_sizes = sizes;
  return architecture;
}

constexpr GgufMixture kGatedExperts{
    .is_there = true, .normalises = true, .experts = "num_experts", .states_inner_width = true};

}  // namespace

const Architecture kQwen3Next = gated_qwen("Qwen3NextForCausalLM", "qwen3_next", 2,
                                           {.name = "qwen3next", .mixture = kGatedExperts}, read_qwen3_next);
const Architecture kQwen35 = qwen3_5(
    gated_qwen("Qwen3_5ForCausalLM", "qwen3_5_text", 4, {.name = "qwen35"}, read_qwen3_5), {.vocab_size = 248320,
                                                                                            .hidden_size = 4096,
                                                                                            .intermediate_size = 12288,
                                                                                            .num_hidden_layers = 32,
                                                                                            .num_attention_heads = 16});
const Architecture kQwen35Moe =
    qwen3_5(gated_qwen("Qwen3_5MoeForCausalLM", "qwen3_5_moe_text", 2, {.name = "qwen35moe", .mixture = kGatedExperts},
                       read_qwen3_5_moe),
            {.vocab_size = 248320, .hidden_size = 2048, .num_hidden_layers = 40, .num_attention_heads = 16});

}  // namespace spillway::architectures
