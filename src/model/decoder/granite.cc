// Granite 3: Llama with a multiplier of the embedding, of what each branch adds, of the scores, and a divisor of the
// logits; some have a mixture of experts in every layer. Granite 4's hybrids have state spaces in place of attention in
// most layers, and a feed-forward that stands beside the mixture, if there is one.
#include <string>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "model/decoder/architecture.h"
#include "model/decoder/layer_types.h"
#include "model/decoder/mixture_config.h"
#include "model/decoder/state_space_config.h"

namespace spillway::architectures {
namespace {

constexpr double kMinMultiplier = 1e-6, kMaxMultiplier = 1e6;

void read_granite(const JsonField& json, DecoderConfig& config) {
  const bool attention = json["attention_bias"].boolean_or(false);
  set_biases(config.layers, {attention, attention, json["mlp_bias"].boolean_or(false)});
  const auto multiplier = [&](std::string_view key) { return json[key].real_or(1, kMinMultiplier, kMaxMultiplier); };
  config.embedding_scale = multiplier("embedding_multiplier");
  config.residual_scale = multiplier("residual_multiplier");
  const double attention_scale = multiplier("attention_multiplier");
  for (DecoderLayer& layer : config.layers) layer.attention.scale = attention_scale;
  config.logit_scale = 1 / multiplier("logits_scaling");
}

// Gives all layers a mixture.
void read_experts(const JsonField& json, DecoderConfig& config) {
  Mixture mixture = read_mixture(json, "intermediate_size");
  mixture.route.score = ops::RouteScore::kSoftmaxOfChosen;
  mixture.stacked = {.gate_up_proj = "input_linear.weight", .down_proj = "output_linear.weight"};
  mixture.targets_mean_experts = false;
  mixture.module = mixture.transformers_module = "block_sparse_moe";
  mixture.router = "router.layer";
  mixture.transformers_router = "router";
  set_mixtures(mixture, config);
  read_router_training(json, kRouterAuxLossCoef, config);
}

void read_granite_moe(const JsonField& json, DecoderConfig& config) {
  read_granite(json, config);
  read_experts(json, config);
}

void read_granite_hybrid(const JsonField& json, DecoderConfig& config) {
  read_granite(json, config);
  const GatedDelta space = read_state_space(json, {}, config.hidden_size);
  const bool is_rotated = json["position_embedding_type"].string_or("") == "rope";
  const int64_t inner = json["shared_intermediate_size"].integer_or(1024, 1, int64_t{1} << 20);
  const auto layers = std::ssize(config.layers);
  const std::vector<std::string> types =
      read_layer_types(json, json["layer_types"].is_null() ? "layers_block_type" : "layer_types",
                       std::vector<std::string>(static_cast<size_t>(layers), "mamba"));
  for (int64_t i = 0; i < layers; ++i) {
    DecoderLayer& layer = nth(config.layers, i);
    layer.feed_forward.inner = inner;
    const std::string& type = nth(types, i);
    const bool attends = type == "attention" || type == "full_attention";
    if (!attends && type != "mamba" && type != "linear_attention")
      throw input_error(json.where(), "expected layer_types of mamba and attention, got {}; use a model without it",
                        quote(type));
    if (!attends) layer.replace_attention(space);
    if (!attends || !is_rotated) layer.attention.rope.reset();
  }
  const JsonField experts = json["num_local_experts"];
  if (!experts.is_null() && experts.integer(0, ops::kMaxExperts) == 0) return;
  read_experts(json, config);
  for (DecoderLayer& layer : config.layers) layer.has_feed_forward = true;
}

constexpr GgufKey kGraniteKeys[] = {
    {"attention.scale", "attention_multiplier",
     [](const DecoderConfig& config) { return config.layers.front().attention.scale; }},
    {"embedding_scale", "embedding_multiplier", [](const DecoderConfig& config) { return config.embedding_scale; }},
    {"residual_scale", "residual_multiplier", [](const DecoderConfig& config) { return config.residual_scale; }},
    {"logit_scale", "logits_scaling", [](const DecoderConfig& config) { return 1 / config.logit_scale; }}};

constexpr GgufFamily kGranite3{.name = "granite",
                               .states_vocabulary = true,
                               .head_size = GgufHeadSize::kImplied,
                               .heads_fill_rows = true,
                               .biases = {.qkv = true, .output = true, .feed_forward = true, .vary = true},
                               .states_score_scale = true,
                               .rope = {.turns_neighbours = true, .reads_factors = true, .states_size = true},
                               .keys = kGraniteKeys};

constexpr GgufFamily with_experts(GgufFamily family) {
  family.name = "granitemoe";
  family.biases.feed_forward = false;
  family.mixture = {.is_there = true, .experts = "num_local_experts"};
  return family;
}

constexpr GgufFamily with_spaces(GgufFamily family) {
  family.name = "granitehybrid";
  family.told_by = "embedding_scale";
  family.name_without_states = "granite";
  family.lists_keys = family.splits_gate_up = true;
  family.mixture = {.is_there = true,
                    .experts = "num_local_experts",
                    .may_be_absent = true,
                    .shares_feed_forward = true,
                    .shared_width_key = "shared_intermediate_size"};
  family.space = {.is_there = true,
                  .expand = 2,
                  .layers = "layer_types",
                  .space_kind = "mamba",
                  .attention_kind = "attention",
                  .always_adds_bias = true};
  family.rope.turning_key = "position_embedding_type";
  return family;
}

}  // namespace

const Architecture kGranite{.name = "GraniteForCausalLM",
                            .model_type = "granite",
                            .default_max_position_embeddings = 2048,
                            .read = read_granite,
                            .gguf = kGranite3};

const Architecture kGraniteMoe{.name = "GraniteMoeForCausalLM",
                               .model_type = "granitemoe",
                               .default_max_position_embeddings = 2048,
                               .read = read_granite_moe,
                               .gguf = with_experts(kGranite3)};

const Architecture kGraniteMoeHybrid{.name = "GraniteMoeHybridForCausalLM",
                                     .model_type = "granitemoehybrid",
                                     .default_max_position_embeddings = 2048,
                                     .has_feed_forward = false,
                                     .layer = {.feed_forward = {.is_fused = true,
                                                                .module = "shared_mlp",
                                                                .down_proj = "output_linear",
                                                                .fused_proj = "input_linear"}},
                                     .read = read_granite_hybrid,
                                     .gguf = with_spaces(kGranite3)};

}  // namespace spillway::architectures
