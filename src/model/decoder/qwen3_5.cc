// Qwen3-Next and Qwen3.5, dense and with mixtures of experts: the gated delta rule in most layers, attention with a
// gate of what it gives in the others.
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "model/decoder/architecture.h"
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
  std::vector<std::string> types = json["layer_types"].strings_or_none();
  if (types.empty()) {
    const int64_t interval = json["full_attention_interval"].integer_or(4, 1, kMaxInterval);
    for (int64_t layer = 1; layer <= layers; ++layer)
      types.emplace_back(layer % interval == 0 ? "full_attention" : "linear_attention");
  }
  if (std::ssize(types) == layers) return types;
  throw input_error(json.where(),
                    "expected layer_types to list num_hidden_layers = {} layers, got {}; correct the list", layers,
                    types.size());
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
    nth(config.layers, layer).delta = delta;
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

constexpr DecoderLayer kGatedLayer{.attention = {.head_norm = HeadNorm::kEachHead, .has_gate = true}};
constexpr NormDefaults kNorm{.weight_shift = 1};
constexpr RopeDefaults kQuarterRope{.is_partial = true, .partial_rotary_factor = 0.25};

}  // namespace

const Architecture kQwen3Next{.name = "Qwen3NextForCausalLM",
                              .model_type = "qwen3_next",
                              .default_kv_heads = 2,
                              .default_head_dim = 256,
                              .default_max_position_embeddings = 32768,
                              .norm = kNorm,
                              .rope = kQuarterRope,
                              .layer = kGatedLayer,
                              .read = read_qwen3_next};

const Architecture kQwen35{.name = "Qwen3_5ForCausalLM",
                           .model_type = "qwen3_5_text",
                           .default_kv_heads = 4,
                           .default_head_dim = 256,
                           .default_max_position_embeddings = 32768,
                           .norm = kNorm,
                           .rope = kQuarterRope,
                           .layer = kGatedLayer,
                           .read = read_qwen3_5,
                           .default_sizes = {.vocab_size = 248320,
                                             .hidden_size = 4096,
                                             .intermediate_size = 12288,
                                             .num_hidden_layers = 32,
                                             .num_attention_heads = 16}};

const Architecture kQwen35Moe{
    .name = "Qwen3_5MoeForCausalLM",
    .model_type = "qwen3_5_moe_text",
    .default_kv_heads = 2,
    .default_head_dim = 256,
    .default_max_position_embeddings = 32768,
    .norm = kNorm,
    .rope = kQuarterRope,
    .has_feed_forward = false,
    .layer = kGatedLayer,
    .read = read_qwen3_5_moe,
    .default_sizes = {.vocab_size = 248320, .hidden_size = 2048, .num_hidden_layers = 40, .num_attention_heads = 16}};

}  // namespace spillway::architectures
