// Gemma 4: Gemma 3 with norms whose weights are kept as they are, scores that are not scaled, and a norm of values.
// Layers without a window have heads of a size of their own, and may have fewer keys, which are their values, too. Some
// models have experts beside each feed-forward. In the small ones the last layers take keys and values of layers before
// them, and all layers have inputs of their own.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "model/config_overrides.h"
#include "model/decoder/architecture.h"
#include "model/decoder/mixture_config.h"
#include "model/decoder/sliding_window.h"

namespace spillway::architectures {
namespace {

constexpr int64_t kPattern = 6, kMaxGemma4Heads = 4096;
// Transformers', where config.json does not say.
constexpr int64_t kGlobalHeadDim = 512, kLayerInputWidth = 256, kLayerInputRows = 262144;
constexpr int64_t kMaxLayerInputWidth = int64_t{1} << 20;

// Images may see all of themselves; tokens of text see those before them either way.
void refuse_other_masks(const JsonField& json) {
  const JsonField whom = json["use_bidirectional_attention"];
  if (whom.string_or("vision") == "vision") return;
  throw whom.bad("\"vision\" or null", "use a model that predicts the next token, or " +
                                           override_advice(json.where(), "use_bidirectional_attention", "null"));
}

void set_heads(const JsonField& json, const JsonField& head_dim, const JsonField& kv_heads, Attention& attention) {
  attention.head_dim = head_dim.integer_or(attention.head_dim, 2, ops::kMaxHeadSize);
  attention.kv_heads = kv_heads.integer_or(attention.kv_heads, 1, kMaxGemma4Heads);
  if (attention.head_dim % 2 == 0 && attention.heads % attention.kv_heads == 0) return;
  throw input_error(json.where(),
                    "expected an even head_dim, and num_key_value_heads that divide num_attention_heads = {}, got {} "
                    "and {}; check per_layer_config, global_head_dim and num_global_key_value_heads",
                    attention.heads, attention.head_dim, attention.kv_heads);
}

// Reads {"5": {"head_dim": 512, "num_key_value_heads": 4}, ...}, as transformers writes it from 5.23 on.
void read_heads_by_layer(const JsonField& by_layer, DecoderConfig& config) {
  for (const auto& [name, own] : by_layer.members()) {
    int64_t layer = -1;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
    if (error != std::errc() || end != name.data() + name.size() || layer < 0 || layer >= std::ssize(config.layers))
      throw input_error(by_layer.where(), "expected numbers of layers below {}, got {}; correct the key",
                        config.layers.size(), quote(name));
    for (const auto& [key, value] : own.members()) {
      if (key != "head_dim" && key != "num_key_value_heads")
        throw input_error(own.where(), "expected head_dim and num_key_value_heads, got {}; use a model without it",
                          quote(key));
    }
    set_heads(by_layer, own["head_dim"], own["num_key_value_heads"], nth(config.layers, layer).attention);
  }
}

// Reads the heads of layers without a window.
void read_heads(const JsonField& json, DecoderConfig& config) {
  if (!json["per_layer_config"].is_null()) return read_heads_by_layer(json["per_layer_config"], config);
  const bool values_are_keys = json["attention_k_eq_v"].boolean_or(false);
  for (DecoderLayer& layer : config.layers) {
    if (layer.attention.window > 0) continue;
    if (!json.has("global_head_dim")) layer.attention.head_dim = kGlobalHeadDim;
    set_heads(json, json["global_head_dim"],
              json[values_are_keys ? "num_global_key_value_heads" : "num_key_value_heads"], layer.attention);
  }
}

// The last layer always sees everything.
void read_windows(const JsonField& json, int64_t missing, DecoderConfig& config) {
  read_patterned_windows(json, kPattern, config, missing);
  config.layers.back().attention.window = 0;
}

// Returns the last of the first `own` layers that is of the kind of `layer`: with a window, or without one.
int64_t source_of_keys(const JsonField& json, const DecoderConfig& config, int64_t own, int64_t layer) {
  const Attention& attention = nth(config.layers, layer).attention;
  int64_t source = own;
  while (--source >= 0 && (nth(config.layers, source).attention.window > 0) != (attention.window > 0)) continue;
  if (source < 0) {
    throw input_error(json.where(),
                      "expected a layer of type {} among the first {}, whose keys and values layer {} would take, got "
                      "none; correct layer_types or num_kv_shared_layers",
                      attention.window > 0 ? "sliding_attention" : "full_attention", own, layer);
  }
  const Attention& from = nth(config.layers, source).attention;
  if (from.head_dim == attention.head_dim && from.kv_heads == attention.kv_heads) return source;
  throw input_error(json.where(),
                    "expected {} heads of {} in layer {}, which takes the keys and values of layer {}, got {} of {}; "
                    "correct per_layer_config",
                    from.kv_heads, from.head_dim, layer, source, attention.kv_heads, attention.head_dim);
}

// The last layers take keys and values of the last ones before them, and may have feed-forwards of twice the width.
void read_shared_keys(const JsonField& json, DecoderConfig& config) {
  const int64_t layers = std::ssize(config.layers);
  const int64_t shared = json["num_kv_shared_layers"].integer_or(0, 0, kMaxPositions);
  if (shared >= layers && shared > 0)
    throw json["num_kv_shared_layers"].bad(fmt::format("less than num_hidden_layers = {}", layers),
                                           "use a model with a layer that has keys and values of its own");
  const bool is_wide = json["use_double_wide_mlp"].boolean_or(false);
  for (int64_t layer = layers - shared; layer < layers; ++layer) {
    nth(config.layers, layer).attention.keys_of = source_of_keys(json, config, layers - shared, layer);
    if (is_wide) nth(config.layers, layer).feed_forward.inner *= 2;
  }
}

// Every layer has an input of its own, where the width of these inputs is not 0.
void read_layer_inputs(const JsonField& json, DecoderConfig& config) {
  const int64_t width = json["hidden_size_per_layer_input"].integer_or(kLayerInputWidth, 0, kMaxLayerInputWidth);
  if (width == 0) return;
  const int64_t rows = json["vocab_size_per_layer_input"].integer_or(kLayerInputRows, 1, kMaxPositions);
  if (rows != config.vocab_size) {
    throw input_error(json.where(),
                      "expected vocab_size_per_layer_input {}, as vocab_size, got {}; use a model whose tables have a "
                      "row for each token",
                      config.vocab_size, rows);
  }
  for (DecoderLayer& layer : config.layers) layer.input_width = width;
}

// Reads the keys of both kinds.
void read_text(const JsonField& json, int64_t missing_window, DecoderConfig& config) {
  refuse_other_masks(json);
  if (!json["rope_scaling"].is_null())
    throw json["rope_scaling"].bad("none, which Gemma 4 does not read", "use rope_parameters");
  read_windows(json, missing_window, config);
  read_heads(json, config);
  read_shared_keys(json, config);
  const bool bias = json["attention_bias"].boolean_or(false);
  const bool values_are_keys = json["attention_k_eq_v"].boolean_or(false);
  set_biases(config.layers, {.qkv = bias, .output = bias});
  for (DecoderLayer& layer : config.layers) {
    layer.attention.scale = 1;
    layer.attention.values_are_keys = values_are_keys && layer.attention.window == 0;
  }
  config.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
  const JsonField cap = json["final_logit_softcapping"];
  config.logit_soft_cap = cap.is_null() ? 0 : cap.real(1e-3, 1e9);
}

// Every layer has experts beside its feed-forward, with norms of their own.
void add_mixtures(const JsonField& json, DecoderConfig& config) {
  Mixture mixture = read_mixture(json, "moe_intermediate_size", "top_k_experts");
  mixture.route.normalises = true;
  mixture.stacked.emplace();
  mixture.router_scales.emplace();
  mixture.router_is_linear = true;
  mixture.activation = Activation::kGeluTanh;
  mixture.targets_mean_experts = false;
  mixture.module = mixture.transformers_module = "";
  mixture.router = "router.proj";
  set_mixtures(mixture, config);
  for (DecoderLayer& layer : config.layers) {
    layer.norms.after_dense = "post_feedforward_layernorm_1";
    layer.has_feed_forward = true;
    layer.norms.before_mixture = "pre_feedforward_layernorm_2";
    layer.norms.after_mixture = "post_feedforward_layernorm_2";
  }
}

void read_gemma4(const JsonField& json, DecoderConfig& config) {
  read_text(json, 512, config);
  if (json["enable_moe_block"].boolean_or(false)) add_mixtures(json, config);
  read_layer_inputs(json, config);
}

void read_gemma4_unified(const JsonField& json, DecoderConfig& config) { read_text(json, 1024, config); }

constexpr DecoderLayer kGemma4Layer{.norms = {.after_attention = "post_attention_layernorm",
                                              .before_feed_forward = "pre_feedforward_layernorm",
                                              .after_feed_forward = "post_feedforward_layernorm"},
                                    .attention = {.head_norm = HeadNorm::kEachHead, .normalises_values = true},
                                    .feed_forward = {.activation = Activation::kGeluTanh},
                                    .has_scalar = true};
constexpr RopeDefaults kGemma4Ropes{.theta = 1e6, .local_theta = 1e4, .proportion = 0.25};
constexpr Architecture::Sizes kGemma4Sizes{262144, 2304, 9216, 30, 8};

constexpr GgufKey kGemma4Keys[] = {{"final_logit_softcapping", "final_logit_softcapping",
                                    [](const DecoderConfig& config) { return config.logit_soft_cap; }}};
int64_t count_shared_layers(const DecoderConfig& config) {
  return std::ranges::count_if(config.layers,
                               [](const DecoderLayer& layer) { return layer.attention.keys_of.has_value(); });
}

constexpr GgufCount kGemma4Counts[] = {{"attention.shared_kv_layers", "num_kv_shared_layers", count_shared_layers},
                                       {"embedding_length_per_layer_input", "hidden_size_per_layer_input",
                                        [](const DecoderConfig& config) { return config.layers.front().input_width; }}};
constexpr GgufFamily kGemma4Gguf{.name = "gemma4",
                                 .head_size = GgufHeadSize::kWritten,
                                 .windows = GgufWindows::kListed,
                                 .states_local_heads = true,
                                 .has_unit_scores = true,
                                 .mixture = {.is_there = true,
                                             .normalises = true,
                                             .experts = "num_experts",
                                             .states_inner_width = true,
                                             .used = "top_k_experts",
                                             .flag = "enable_moe_block",
                                             .keeps_gate_up = true},
                                 .rope = {.may_stretch = false,
                                          .reads_proportion = true,
                                          .states_size = true,
                                          .local_base = GgufLocalBase::kWritten},
                                 .keys = kGemma4Keys,
                                 .counts = kGemma4Counts,
                                 .double_width_key = "use_double_wide_mlp",
                                 .input_rows_key = "vocab_size_per_layer_input"};

}  // namespace

const Architecture kGemma4{.name = "Gemma4ForCausalLM",
                           .model_type = "gemma4_text",
                           .default_kv_heads = 4,
                           .default_head_dim = 256,
                           .default_max_position_embeddings = 131072,
                           .default_pad_token_id = 0,
                           .ties_by_default = true,
                           .rope = kGemma4Ropes,
                           .activation_key = "hidden_activation",
                           .activation_names = kGeluTanhNames,
                           .rounds_embedding_scale = true,
                           .layer = kGemma4Layer,
                           .read = read_gemma4,
                           .gguf = kGemma4Gguf,
                           .default_sizes = kGemma4Sizes};

const Architecture kGemma4Unified{.name = "Gemma4UnifiedForCausalLM",
                                  .model_type = "gemma4_unified_text",
                                  .default_kv_heads = 4,
                                  .default_head_dim = 256,
                                  .default_max_position_embeddings = 262144,
                                  .default_pad_token_id = 0,
                                  .ties_by_default = true,
                                  .rope = kGemma4Ropes,
                                  .activation_key = "hidden_activation",
                                  .activation_names = kGeluTanhNames,
                                  .rounds_embedding_scale = true,
                                  .layer = kGemma4Layer,
                                  .read = read_gemma4_unified,
                                  .gguf = kGemma4Gguf,
                                  .default_sizes = kGemma4Sizes};

}  // namespace spillway::architectures
