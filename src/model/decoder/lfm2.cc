// LFM2, dense and with mixtures of experts: short convolutions in most layers, attention in the others.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "base/math.h"
#include "base/text.h"
#include "model/decoder/architecture.h"
#include "model/decoder/layer_types.h"
#include "model/decoder/mixture_config.h"
#include "ops/causal_conv/causal_conv.h"
#include "ops/route/route.h"

namespace spillway::architectures {
namespace {

constexpr int64_t kMaxInnerMultiple = int64_t{1} << 20;
constexpr double kMaxInnerMultiplier = 1e3;

// Returns the types of layers, by layer_types or, in older files, by the list of those with attention; all have
// attention where there is neither.
std::vector<std::string> read_lfm2_types(const JsonField& json, int64_t layers) {
  const JsonField listed = json["full_attn_idxs"];
  std::vector<std::string> types(static_cast<size_t>(layers), listed.is_null() ? "full_attention" : "conv");
  if (!listed.is_null() && json["layer_types"].is_null())
    for (const JsonField& layer : listed.elements()) nth(types, layer.integer(0, layers - 1)) = "full_attention";
  return read_layer_types(json, "layer_types", std::move(types));
}

void read_convolutions(const JsonField& json, DecoderConfig& config) {
  const ShortConvolution convolution{.channels = config.hidden_size,
                                     .taps = json["conv_L_cache"].integer_or(3, 2, ops::kMaxTaps),
                                     .bias = json["conv_bias"].boolean_or(false)};
  const auto layers = std::ssize(config.layers);
  const std::vector<std::string> types = read_lfm2_types(json, layers);
  for (int64_t layer = 0; layer < layers; ++layer) {
    const std::string& type = nth(types, layer);
    if (type == "full_attention") continue;
    if (type != "conv")
      throw input_error(json.where(), "expected layer_types of full_attention and conv, got {}; use a model without it",
                        quote(type));
    nth(config.layers, layer).replace_attention(convolution);
    nth(config.layers, layer).attention.rope.reset();
  }
}

// Returns the width that feed-forwards really have: transformers takes the config's for that of a feed-forward without
// a gate, unless told otherwise.
int64_t adjusted_inner(const JsonField& json, int64_t inner) {
  if (!json["block_auto_adjust_ff_dim"].boolean_or(true)) return inner;
  inner = 2 * inner / 3;
  const JsonField multiplier = json["block_ffn_dim_multiplier"];
  if (json.has("block_ffn_dim_multiplier") && multiplier.is_null()) return inner;
  inner = static_cast<int64_t>(multiplier.real_or(1, 0, kMaxInnerMultiplier) * static_cast<double>(inner));
  return align_up(inner, json["block_multiple_of"].integer_or(256, 1, kMaxInnerMultiple));
}

void read_lfm2(const JsonField& json, DecoderConfig& config) {
  read_convolutions(json, config);
  for (DecoderLayer& layer : config.layers) {
    layer.feed_forward.inner = adjusted_inner(json, layer.feed_forward.inner);
    if (layer.feed_forward.inner > 0) continue;
    throw input_error(json.where(), "expected intermediate_size to leave a width of feed-forwards, got 0; correct {}",
                      "block_ffn_dim_multiplier");
  }
}

void read_lfm2_moe(const JsonField& json, DecoderConfig& config) {
  read_convolutions(json, config);
  Mixture mixture = read_mixture(json, "moe_intermediate_size");
  mixture.route.score = ops::RouteScore::kSigmoid;
  mixture.route.normalises = json["norm_topk_prob"].boolean_or(true);
  mixture.route.epsilon = mixture.route.normalises ? 1e-6 : 0;
  read_route_scale(json, mixture);
  mixture.targets_mean_experts = false;
  mixture.module = mixture.transformers_module = "feed_forward";
  mixture.gate_proj = "w1";
  mixture.up_proj = "w3";
  mixture.down_proj = "w2";
  if (json["use_expert_bias"].boolean_or(true)) mixture.choice_bias = "expert_bias";
  set_mixtures_behind_dense(json, mixture, config, "num_dense_layers", 2);
}

constexpr DecoderLayer kLayer{
    .norms = {.before_attention = "operator_norm", .before_feed_forward = "ffn_norm"},
    .attention = {.head_norm = HeadNorm::kEachHead,
                  .output_proj = "out_proj",
                  .query_norm = "q_layernorm",
                  .key_norm = "k_layernorm"},
    .feed_forward = {.module = "feed_forward", .gate_proj = "w1", .up_proj = "w3", .down_proj = "w2"}};

// Returns what both kinds have in common.
constexpr Architecture lfm2(std::string_view name, std::string_view model_type, GgufFamily gguf,
                            void (*read)(const JsonField&, DecoderConfig&)) {
  gguf.final_norm = "token_embd_norm";
  gguf.state_type = "conv";
  gguf.states_vocabulary = gguf.heads_fill_rows = gguf.lists_keys = true;
  return {.name = name,
          .model_type = model_type,
          .default_kv_heads = 8,
          .default_max_position_embeddings = 128000,
          .default_pad_token_id = 0,
          .ties_by_default = true,
          .norm = {.eps_key = "norm_eps", .eps = 1e-5},
          .rope = {.theta = 1e6},
          .final_norm = "model.embedding_norm",
          .tie_key = "tie_embedding",
          .layer = kLayer,
          .read = read,
          .gguf = gguf};
}

constexpr Architecture with_inner_key(Architecture architecture, std::string_view key) {
  architecture.inner_key = key;
  return architecture;
}

constexpr GgufMixture kLfm2Experts{.is_there = true,
                                   .normalises = true,
                                   .experts = "num_experts",
                                   .states_inner_width = true,
                                   .dense = "num_dense_layers",
                                   .states_gating = true,
                                   .needs_choice_bias = true};

}  // namespace

const Architecture kLfm2 = with_inner_key(lfm2("Lfm2ForCausalLM", "lfm2", {.name = "lfm2"}, read_lfm2), "block_ff_dim");
const Architecture kLfm2Moe =
    lfm2("Lfm2MoeForCausalLM", "lfm2_moe", {.name = "lfm2moe", .mixture = kLfm2Experts}, read_lfm2_moe);

}  // namespace spillway::architectures
