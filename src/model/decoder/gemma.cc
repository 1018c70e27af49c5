// Gemma: Llama with norms whose weights are kept as what they differ from 1, a scaled embedding, and GELU. Gemma 2 and
// 3 have norms before and after each branch, and windows in most layers. Gemma 2 caps scores and logits; Gemma 3
// normalises queries and keys instead and rotates layers with a window by a base of their own.
#include <cmath>
#include <string>

#include "base/error.h"
#include "base/text.h"
#include "model/config_overrides.h"
#include "model/decoder/architecture.h"
#include "model/decoder/sliding_window.h"

namespace spillway::architectures {
namespace {

// An explicit null is none; only a missing key has a default.
double cap_of(const JsonField& json, std::string_view key, double missing) {
  const bool none = json.has(key) ? json[key].is_null() : missing == 0;
  return none ? 0 : json[key].real_or(missing, 1e-3, 1e9);
}

// Reads the keys of all Gemmas.
void read_gemma(const JsonField& json, DecoderConfig& config) {
  if (json["use_bidirectional_attention"].boolean_or(false)) {
    throw input_error(json.where(),
                      "expected use_bidirectional_attention false, got true; use a model that predicts the next token, "
                      "or {}",
                      override_advice(json.where(), "use_bidirectional_attention", "false"));
  }
  const bool bias = json["attention_bias"].boolean_or(false);
  set_biases(config.layers, {.qkv = bias, .output = bias});
  config.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
}

// Reads the activation, for which there are two keys: transformers 4 goes by hidden_activation, transformers 5 by
// hidden_act.
void read_gemma1(const JsonField& json, DecoderConfig& config) {
  const std::string other = json["hidden_activation"].string_or(kGeluTanhNames[0]);
  if (other != kGeluTanhNames[0]) {
    throw input_error(json.where(), "expected hidden_activation {}, got {}; use a model with that activation",
                      kGeluTanhNames[0], quote(other));
  }
  read_gemma(json, config);
}

void read_attention(const JsonField& json, double missing_score_cap, double missing_logit_cap, DecoderConfig& config) {
  read_gemma(json, config);
  const double scale = 1 / std::sqrt(json["query_pre_attn_scalar"].real_or(256, 1e-3, 1e9));
  const double soft_cap = cap_of(json, "attn_logit_softcapping", missing_score_cap);
  for (DecoderLayer& layer : config.layers) {
    layer.attention.scale = scale;
    layer.attention.soft_cap = soft_cap;
  }
  config.logit_soft_cap = cap_of(json, "final_logit_softcapping", missing_logit_cap);
}

void read_gemma2(const JsonField& json, DecoderConfig& config) {
  read_attention(json, 50, 30, config);
  read_patterned_windows(json, 2, config);
}

void read_gemma3(const JsonField& json, DecoderConfig& config) {
  read_attention(json, 0, 0, config);
  read_patterned_windows(json, json["sliding_window_pattern"].integer_or(6, 1, kMaxPositions), config);
}

// Its files say gelu and mean its tanh, as transformers does.
constexpr std::string_view kGemmaActivationNames[] = {"gelu_pytorch_tanh", "gelu"};

constexpr FeedForward kGemmaFeedForward{.activation = Activation::kGeluTanh};
constexpr LayerNorms kGemmaNorms{.after_attention = "post_attention_layernorm",
                                 .before_feed_forward = "pre_feedforward_layernorm",
                                 .after_feed_forward = "post_feedforward_layernorm"};

constexpr GgufKey kGemma2Keys[] = {
    {"attn_logit_softcapping", "attn_logit_softcapping",
     [](const DecoderConfig& config) { return config.layers.front().attention.soft_cap; }},
    {"final_logit_softcapping", "final_logit_softcapping",
     [](const DecoderConfig& config) { return config.logit_soft_cap; }}};
constexpr GgufKey kGemma3Keys[] = {{"final_logit_softcapping", "final_logit_softcapping",
                                    [](const DecoderConfig& config) { return config.logit_soft_cap; }, false}};

}  // namespace

const Architecture kGemma{.name = "GemmaForCausalLM",
                          .model_type = "gemma",
                          .default_kv_heads = 16,
                          .default_head_dim = 256,
                          .default_max_position_embeddings = 8192,
                          .default_pad_token_id = 0,
                          .ties_by_default = true,
                          .norm = {.weight_shift = 1},
                          .activation_names = kGemmaActivationNames,
                          .rounds_embedding_scale = true,
                          .layer = {.feed_forward = kGemmaFeedForward},
                          .read = read_gemma1,
                          .gguf = {.name = "gemma",
                                   .head_size = GgufHeadSize::kWritten,
                                   .head = GgufHead::kTied,
                                   .rope = {.has_base = false, .may_stretch = false}}};

const Architecture kGemma2{.name = "Gemma2ForCausalLM",
                           .model_type = "gemma2",
                           .default_kv_heads = 4,
                           .default_head_dim = 256,
                           .default_max_position_embeddings = 8192,
                           .default_pad_token_id = 0,
                           .ties_by_default = true,
                           .norm = {.weight_shift = 1},
                           .activation_key = "hidden_activation",
                           .activation_names = kGeluTanhNames,
                           .rounds_embedding_scale = true,
                           .layer = {.norms = kGemmaNorms, .feed_forward = kGemmaFeedForward},
                           .read = read_gemma2,
                           .gguf = {.name = "gemma2",
                                    .head_size = GgufHeadSize::kWritten,
                                    .head = GgufHead::kTied,
                                    .windows = GgufWindows::kPattern,
                                    .pattern = 2,
                                    .layers_of_wide_scale = 46,
                                    .rope = {.has_base = false, .may_stretch = false},
                                    .keys = kGemma2Keys},
                           .default_sizes = {256000, 2304, 9216, 26, 8}};

const Architecture kGemma3{
    .name = "Gemma3ForCausalLM",
    .model_type = "gemma3_text",
    .default_kv_heads = 4,
    .default_head_dim = 256,
    .default_max_position_embeddings = 131072,
    .default_pad_token_id = 0,
    .ties_by_default = true,
    .norm = {.weight_shift = 1},
    .rope = {.theta = 1e6, .local_theta = 1e4},
    .activation_key = "hidden_activation",
    .activation_names = kGeluTanhNames,
    .rounds_embedding_scale = true,
    .classifier = "Gemma3Text",
    .layer = {.norms = kGemmaNorms, .attention = {.head_norm = HeadNorm::kEachHead}, .feed_forward = kGemmaFeedForward},
    .read = read_gemma3,
    .gguf = {.name = "gemma3",
             .head_size = GgufHeadSize::kWritten,
             .windows = GgufWindows::kPatternOrNone,
             .pattern = 6,
             .layers_of_wide_scale = 62,
             .rope = {.local_base = GgufLocalBase::kWritten},
             .keys = kGemma3Keys},
    .default_sizes = {262208, 2304, 9216, 26, 8}};

}  // namespace spillway::architectures
