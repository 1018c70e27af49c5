// Granite 3: Llama with a multiplier of the embedding, of what each branch adds, of the scores, and a divisor of the
// logits; some have a mixture of experts in every layer.
#include "model/decoder/architecture.h"
#include "model/decoder/mixture_config.h"

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

void read_granite_moe(const JsonField& json, DecoderConfig& config) {
  read_granite(json, config);
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

}  // namespace spillway::architectures
