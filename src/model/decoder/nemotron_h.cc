// NVIDIA's Nemotron-H, Nemotron Nano 2 and Nemotron 3: each layer is one part, a state space, attention without
// positions, a feed-forward without a gate, or a mixture of experts without gates.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "model/decoder/architecture.h"
#include "model/decoder/mixture_config.h"
#include "model/decoder/state_space_config.h"

namespace spillway::architectures {
namespace {

constexpr int64_t kMaxSharedWidth = int64_t{1} << 20;
constexpr double kMinStep = 1e-9, kMaxStep = 1e6;
constexpr std::string_view kModule = "mixer";

// The layers as a text: M is a state space, * attention, - a feed-forward, E a mixture.
std::string pattern_of_types(const JsonField& json, std::string_view key) {
  std::string pattern;
  for (const std::string& type : json[key].strings_or_none()) {
    if (type == "linear_attention" || type == "mamba") {
      pattern += 'M';
    } else if (type == "full_attention" || type == "attention") {
      pattern += '*';
    } else if (type == "mlp") {
      pattern += '-';
    } else if (type == "moe") {
      pattern += 'E';
    } else {
      throw input_error(json.where(), "expected {} of linear_attention, full_attention, mlp and moe, got {}; {}", key,
                        quote(type), "use a model of these layers");
    }
  }
  return pattern;
}

// Transformers reads the list where there is one, and else the pattern.
std::string pattern_of(const JsonField& json) {
  for (const std::string_view key : {"layers_block_type", "layer_types"})
    if (std::string pattern = pattern_of_types(json, key); !pattern.empty()) return pattern;
  const JsonField written = json["hybrid_override_pattern"];
  std::string pattern = written.string_or("");
  if (pattern.empty())
    throw input_error(json.where(), "expected layers_block_type or hybrid_override_pattern, got none; {}",
                      "add the one that the model's files have");
  if (pattern.find_first_not_of("M*-E") != std::string::npos)
    throw written.bad("a pattern of M, *, - and E", "use a model of these layers");
  return pattern;
}

int64_t count_layers(const JsonField& json) { return std::ssize(pattern_of(json)); }

// Configs that older versions of transformers wrote have names of their own for these keys, which count.
std::string_view key_of(const JsonField& json, std::string_view older, std::string_view key) {
  return json.has(older) ? older : key;
}

GatedDelta read_space(const JsonField& json, const DecoderConfig& config) {
  if (json["mamba_hidden_act"].string_or("silu") != "silu")
    throw json["mamba_hidden_act"].bad("silu", "use a model with that activation");
  GatedDelta space = read_state_space(json,
                                      {.heads = "mamba_num_heads",
                                       .groups = key_of(json, "mamba_n_groups", "n_groups"),
                                       .state = "ssm_state_size",
                                       .head_dim = "mamba_head_dim",
                                       .taps = key_of(json, "mamba_d_conv", "conv_kernel"),
                                       .conv_bias = key_of(json, "mamba_conv_bias", "use_conv_bias"),
                                       .bias = "use_bias",
                                       .default_groups = 8,
                                       .default_state = 128,
                                       .default_head_dim = 64,
                                       .has_expand = false},
                                      config.hidden_size);
  space.module = kModule;
  space.has_adapters = false;
  // Transformers bounds steps by time_step_min, and reads no time_step_limit.
  const auto step = [&](std::string_view older, std::string_view key, double missing) {
    return json[key_of(json, older, key)].real_or(missing, kMinStep, kMaxStep);
  };
  space.steps = {.least = step("mamba_dt_min", "time_step_min", 0.001)};
  space.fresh.steps = {.low = space.steps.least,
                       .high = step("mamba_dt_max", "time_step_max", 0.1),
                       .least = step("mamba_dt_init_floor", "time_step_floor", 1e-4)};
  if (json["rescale_prenorm_residual"].boolean_or(true)) {
    const auto width = static_cast<double>(space.value_width()), layers = static_cast<double>(config.layers.size());
    space.fresh.output_bound = 1 / std::sqrt(width * layers);
  }
  return space;
}

Mixture read_relu_experts(const JsonField& json) {
  Mixture mixture = read_grouped_mixture(json);
  mixture.shared_inner = json["moe_shared_expert_intermediate_size"].integer_or(7688, 1, kMaxSharedWidth);
  if (const JsonField latent = json["moe_latent_size"]; !latent.is_null())
    mixture.latent = latent.integer(1, kMaxSharedWidth);
  mixture.router_is_f32 = true;
  mixture.has_gate = false;
  mixture.activation = Activation::kReluSquared;
  mixture.bias = json["mlp_bias"].boolean_or(false);
  mixture.targets_mean_experts = false;
  mixture.module = mixture.transformers_module = kModule;
  return mixture;
}

// Files may hold layers that predict several tokens (mtp), which no forward pass reads.
void read_nemotron_h(const JsonField& json, DecoderConfig& config) {
  if (json["tie_word_embeddings"].boolean_or(false))
    throw json["tie_word_embeddings"].bad("false", "use a model with a head of its own, as transformers makes it");
  const std::string pattern = pattern_of(json);
  for (int64_t i = 0; i < std::ssize(config.layers); ++i) {
    DecoderLayer& layer = nth(config.layers, i);
    layer.attention.rope.reset();
    layer.feed_forward.bias = json["mlp_bias"].boolean_or(false);
    layer.has_attention = nth(pattern, i) == '*';
    layer.has_feed_forward = nth(pattern, i) == '-';
    if (nth(pattern, i) == 'M') layer.delta = read_space(json, config);
    if (nth(pattern, i) == 'E') layer.mixture = read_relu_experts(json);
  }
  config.has_unread_layers = true;
}

constexpr DecoderLayer kOnePart{
    .norms = {.before_attention = "norm", .before_feed_forward = "norm"},
    .attention = {.module = kModule},
    .feed_forward = {.activation = Activation::kReluSquared, .has_gate = false, .module = kModule}};

constexpr GgufFamily kNemotronFile{
    .name = "nemotron_h",
    .name_with_experts = "nemotron_h_moe",
    .has_layer_norm_eps = true,
    .lists_keys = true,
    .lists_widths = true,
    .states_vocabulary = true,
    .head_size = GgufHeadSize::kWritten,
    .head = GgufHead::kUntied,
    .mixture = {.is_there = true,
                .experts = "n_routed_experts",
                .states_inner_width = true,
                .states_scale = true,
                .states_groups = true,
                .may_be_absent = true,
                .states_one_shared = true,
                .shared_width_key = "moe_shared_expert_intermediate_size"},
    .space = {.is_there = true,
              .heads = "mamba_num_heads",
              .groups = "n_groups",
              .state = "ssm_state_size",
              .head_dim = "mamba_head_dim",
              .taps = "conv_kernel",
              .layers = "layers_block_type",
              .space_kind = "linear_attention",
              .attention_kind = "full_attention",
              .always_adds_bias = true},
    // The converter interleaves heads all the same, of queries and of keys alike.
    .rope = {.turns_neighbours = true, .has_base = false, .states_size = true, .never_turns = true}};

}  // namespace

const Architecture kNemotronH{.name = "NemotronHForCausalLM",
                              .model_type = "nemotron_h",
                              .default_kv_heads = 8,
                              .default_head_dim = 128,
                              .default_max_position_embeddings = 4096,
                              .norm = {.eps_key = "layer_norm_epsilon", .eps = 1e-5},
                              .activation_key = "mlp_hidden_act",
                              .final_norm = "model.norm_f",
                              .embedding = "embeddings",
                              .stem_in_files = "backbone.",
                              .clears_padding = false,
                              .count_layers = count_layers,
                              .activation_names = kReluSquaredNames,
                              .layer = kOnePart,
                              .read = read_nemotron_h,
                              .gguf = kNemotronFile};

}  // namespace spillway::architectures
