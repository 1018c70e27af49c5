#include "model/decoder/gguf.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "base/log.h"
#include "base/text.h"
#include "model/decoder/architecture.h"

namespace spillway {
namespace {

const GgufFamily& family_of(const DecoderConfig& config) { return config.architecture->gguf; }

bool is_window(const DecoderConfig& config, const DecoderLayer& layer) {
  return layer.attention.window > 0 && layer.attention.window < config.max_position_embeddings;
}

// Returns the length of the windows; 0: no layer has one.
int64_t window_length(const DecoderConfig& config) {
  int64_t window = 0;
  for (const DecoderLayer& layer : config.layers) window = std::max(window, layer.attention.window);
  return window;
}

// Returns the number of experts of a layer that has some; 0: no layer has.
int64_t most_experts(const DecoderConfig& config) {
  int64_t experts = 0;
  for (const DecoderLayer& layer : config.layers)
    experts = std::max(experts, layer.mixture ? layer.mixture->experts : 0);
  return experts;
}

// YaRN's factor of cos and sin for a multiplier; llama.cpp's get_mscale.
double yarn_scale(double factor, double multiplier) {
  return factor <= 1 ? 1 : 0.1 * multiplier * std::log(factor) + 1;
}

bool is_near(double a, double b) {
  constexpr double kTolerance = 1e-6;
  return std::abs(a - b) <= kTolerance * std::abs(b);
}

// Checks a config against what llama.cpp computes. Every method throws InputError naming the key of config.json.
class Check {
 public:
  Check(const DecoderConfig& config, std::string_view where)
      : config_(config), family_(family_of(config)), where_(where) {}

  void kind() const {
    if (family_.name.empty()) {
      throw input_error(fmt::format("{}: architectures", where_),
                        "expected a family that is written as GGUF here, got {}; use the folder itself",
                        config_.architecture->name);
    }
    if (config_.score) {
      throw input_error(fmt::format("{}: architectures", where_),
                        "expected a model that predicts tokens, got one that scores; use the folder itself");
    }
    if (config_.quantisation) {
      throw input_error(fmt::format("{}: quantization_config", where_),
                        "expected a model in f32, f16 or bf16, got quantised weights; export the model that they were "
                        "made of, or merge an adapter into it first (spillway merge)");
    }
  }

  void sizes() const {
    const Attention& attention = config_.layers.front().attention;
    if (family_.heads_fill_rows && attention.query_width() != config_.hidden_size)
      refuse("head_dim", "hidden_size / num_attention_heads", fmt::format("{}", attention.head_dim));
    if (family_.heads_share_no_keys && attention.kv_heads != attention.heads)
      refuse("num_key_value_heads", "num_attention_heads", fmt::format("{}", attention.kv_heads));
    if (family_.most_layers > 0 && std::ssize(config_.layers) > family_.most_layers)
      refuse("num_hidden_layers", fmt::format("at most {}", family_.most_layers),
             fmt::format("{}", config_.layers.size()));
    if (family_.head != GgufHead::kAny && config_.tie_word_embeddings != (family_.head == GgufHead::kTied)) {
      refuse("tie_word_embeddings", family_.head == GgufHead::kTied ? "true" : "false",
             config_.tie_word_embeddings ? "true" : "false");
    }
    if (family_.windows == GgufWindows::kUnread && is_window(config_, config_.layers.front())) {
      log_warning("{}: sliding_window: llama.cpp reads {} and lets all tokens see those before them all the same",
                  where_, window_length(config_));
    }
    for (const GgufKey& key : family_.keys)
      if (key.is_needed && key.value(config_) == 0) refuse(key.config, "a number", "none");
  }

  void layer(int64_t index) const {
    const DecoderLayer& layer = nth(config_.layers, index);
    if (layer.attention.qkv_bias && !family_.biases.qkv) refuse("attention_bias", "no biases", "some");
    if (layer.attention.output_bias && !family_.biases.output)
      refuse("attention_bias, attention_out_bias", "no bias behind attention", "one");
    if (layer.feed_forward.bias && !family_.biases.feed_forward) refuse("mlp_bias", "no biases", "some");
    window(index);
    if (layer.attention.rope.has_value() != turns(index)) {
      refuse("no_rope_layers",
             turns(index) ? fmt::format("layer {} rotated", index) : fmt::format("layer {} not rotated", index),
             "the contrary");
    }
    if (!family_.states_score_scale && !is_near(layer.attention.scale, assumed_scale(layer.attention)))
      refuse("query_pre_attn_scalar", fmt::format("{}", std::round(1 / std::pow(assumed_scale(layer.attention), 2))),
             fmt::format("{}", 1 / std::pow(layer.attention.scale, 2)));
    const bool has_cap = std::any_of(family_.keys.begin(), family_.keys.end(),
                                     [](const GgufKey& key) { return key.gguf == "attn_logit_softcapping"; });
    if (layer.attention.soft_cap > 0 && !has_cap) refuse("attn_logit_softcapping", "none", "one");
    if (layer.attention.keys_of) refuse("num_kv_shared_layers", "0", "another number");
    if (layer.input_width > 0) refuse("hidden_size_per_layer_input", "0", fmt::format("{}", layer.input_width));
    mixture(index);
  }

  void ropes() const {
    const RopeConfig& rope = config_.ropes.front();
    const auto known = [&](bool is_known) {
      if (!is_known) refuse("rope_scaling.rope_type", known_ropes(), quote(name_of(rope.type)));
    };
    switch (rope.type) {
      case RopeType::kDefault:
        known(!config_.architecture->rope.scales_queries);
        break;
      case RopeType::kLinear:
        known(family_.rope.may_stretch && !config_.architecture->rope.scales_queries);
        break;
      case RopeType::kYarn:
        known(family_.rope.may_stretch);
        yarn(rope);
        break;
      case RopeType::kLlama3:
        known(family_.rope.reads_factors && !config_.architecture->rope.scales_queries);
        break;
      case RopeType::kLongrope:
        known(family_.rope.reads_longrope);
        break;
      case RopeType::kProportional:
        known(false);
        break;
    }
    if (!family_.rope.has_base && rope.theta != 10000) refuse("rope_theta", "10000", fmt::format("{}", rope.theta));
    if (config_.ropes.size() == 1) return;
    const RopeConfig& local = config_.ropes[1];
    if (local.type != RopeType::kDefault)
      refuse("rope_parameters.sliding_attention.rope_type", "default", quote(name_of(local.type)));
    if (family_.rope.local_base == GgufLocalBase::kSame && local.theta != rope.theta) {
      refuse("rope_theta", fmt::format("{}, as in layers with a window", local.theta), fmt::format("{}", rope.theta));
    }
  }

 private:
  [[noreturn]] void refuse(std::string_view key, std::string_view expected, std::string_view got) const {
    throw input_error(fmt::format("{}: {}", where_, key),
                      "expected {}, which is what llama.cpp computes, got {}; use the folder itself, or another model",
                      expected, got);
  }

  static std::string_view name_of(RopeType type) {
    constexpr std::string_view kNames[] = {"default", "linear", "llama3", "yarn", "longrope", "proportional"};
    return kNames[static_cast<size_t>(type)];
  }
  [[nodiscard]] std::string known_ropes() const {
    if (config_.architecture->rope.scales_queries) return "yarn";
    std::vector<std::string_view> names = {"default"};
    if (family_.rope.may_stretch) names.insert(names.end(), {"linear", "yarn"});
    if (family_.rope.reads_factors) names.emplace_back("llama3");
    if (family_.rope.reads_longrope) names.emplace_back("longrope");
    return joined_names(names);
  }

  void yarn(const RopeConfig& rope) const {
    if (!family_.rope.reads_yarn_betas && (rope.beta_fast != 32 || rope.beta_slow != 1)) {
      refuse("rope_scaling.beta_fast, beta_slow", "32 and 1", fmt::format("{} and {}", rope.beta_fast, rope.beta_slow));
    }
    if (!rope.truncate) refuse("rope_scaling.truncate", "true", "false");
    const double of_all = config_.architecture->rope.scales_queries ? rope.mscale_all_dim : 0;
    const double factor = yarn_scale(rope.factor, 1) / yarn_scale(rope.factor, of_all);
    if (!is_near(rope.attention_factor, factor))
      refuse("rope_scaling.attention_factor", fmt::format("{}", factor), fmt::format("{}", rope.attention_factor));
  }

  [[nodiscard]] bool turns(int64_t index) const {
    if (family_.rope.nth_is_still > 0) return (index + 1) % family_.rope.nth_is_still != 0;
    return !family_.rope.turns_in_windows_only || nth(config_.layers, index).attention.window > 0;
  }

  [[nodiscard]] double assumed_scale(const Attention& attention) const {
    const bool is_wide = std::ssize(config_.layers) == family_.layers_of_wide_scale;
    return 1 / std::sqrt(static_cast<double>(is_wide ? config_.hidden_size / attention.heads : attention.head_dim));
  }

  void mixture(int64_t index) const {
    if (!family_.mixture.is_there) return;
    const std::optional<Mixture>& mixture = nth(config_.layers, index).mixture;
    if (!mixture)
      refuse("mlp_only_layers, decoder_sparse_step", "experts in all layers", fmt::format("none in layer {}", index));
    if (mixture->route.normalises != family_.mixture.normalises)
      refuse("norm_topk_prob", family_.mixture.normalises ? "true" : "false",
             mixture->route.normalises ? "true" : "false");
  }

  void window(int64_t index) const {
    const DecoderLayer& layer = nth(config_.layers, index);
    const int64_t longest = window_length(config_), window = layer.attention.window;
    switch (family_.windows) {
      case GgufWindows::kNoLayer:
        if (is_window(config_, layer))
          refuse("sliding_window", "attention to all tokens", fmt::format("a window of {}", window));
        return;
      case GgufWindows::kPatternOrNone:
        if (longest == 0) return;
        [[fallthrough]];
      case GgufWindows::kPattern:
        if ((window > 0) != ((index + 1) % family_.pattern != 0)) {
          refuse("layer_types", fmt::format("a window in all layers but every {}th", family_.pattern),
                 fmt::format("{} in layer {}", window > 0 ? "one" : "none", index));
        }
        return;
      case GgufWindows::kListed:
      case GgufWindows::kUnread:
        return;
    }
  }

  const DecoderConfig& config_;
  const GgufFamily& family_;
  std::string_view where_;
};

// Returns what llama.cpp divides the frequencies by, in f32 step by step, as the converter computes it.
std::vector<float> rope_factors(const DecoderConfig& config) {
  const RopeConfig& rope = config.ropes.front();
  const int64_t head_dim = config.layers.front().attention.head_dim;
  const auto context = static_cast<float>(rope.original_max_position_embeddings);
  const auto low = static_cast<float>(rope.low_freq_factor), high = static_cast<float>(rope.high_freq_factor);
  const auto factor = static_cast<float>(rope.factor);
  std::vector<float> factors;
  for (int64_t i = 0; i < head_dim; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(head_dim);
    const float frequency = 1.0f / static_cast<float>(std::pow(rope.theta, static_cast<double>(exponent)));
    const float wavelength = static_cast<float>(2 * std::numbers::pi) / frequency;
    if (wavelength < context / high) {
      factors.push_back(1);
    } else if (wavelength > context / low) {
      factors.push_back(factor);
    } else {
      const float smooth = (context / wavelength - low) / (high - low);
      factors.push_back(1 / ((1 - smooth) / factor + smooth));
    }
  }
  return factors;
}

std::vector<float> in_f32(const std::vector<double>& values) { return {values.begin(), values.end()}; }

// Fills the metadata of a description.
class Describer {
 public:
  Describer(const DecoderConfig& config, GgufDescription& result)
      : config_(config), family_(family_of(config)), attention_(config.layers.front().attention), result_(result) {}

  void add_sizes() {
    const FeedForward& feed_forward = config_.layers.front().feed_forward;
    size("block_count", std::ssize(config_.layers));
    size("context_length", config_.max_position_embeddings);
    size("embedding_length", config_.hidden_size);
    size("feed_forward_length", feed_forward.inner);
    size("attention.head_count", attention_.heads);
    size("attention.head_count_kv", attention_.kv_heads);
    const bool is_rms = config_.architecture->norm.kind == NormKind::kRms;
    number(is_rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", config_.norm_eps);
    if (family_.head_size == GgufHeadSize::kWritten ||
        (family_.head_size == GgufHeadSize::kWrittenIfNamed && config_.names_head_dim)) {
      size("attention.key_length", attention_.head_dim);
      size("attention.value_length", attention_.head_dim);
    }
    if (config_.layers.front().mixture) add_mixture(*config_.layers.front().mixture);
    if (family_.states_vocabulary) size("vocab_size", config_.vocab_size);
    for (const GgufKey& key : family_.keys)
      if (const double value = key.value(config_); value != 0) number(key.gguf, value);
  }

  void add_mixture(const Mixture& mixture) {
    size("expert_count", mixture.experts);
    size("expert_used_count", mixture.route.top_k);
    if (family_.mixture.states_inner_width) size("expert_feed_forward_length", mixture.inner);
    if (mixture.shared_inner > 0) size("expert_shared_feed_forward_length", mixture.shared_inner);
  }

  void add_windows() {
    const int64_t window = window_length(config_);
    if (family_.windows == GgufWindows::kNoLayer || (window == 0 && family_.windows != GgufWindows::kUnread)) return;
    size("attention.sliding_window", window);
    if (family_.windows != GgufWindows::kListed) return;
    std::vector<bool> has_window;
    for (const DecoderLayer& layer : config_.layers) has_window.push_back(layer.attention.window > 0);
    set("attention.sliding_window_pattern", std::move(has_window));
  }

  void add_ropes() {
    const RopeConfig& rope = config_.ropes.front();
    if (family_.rope.has_base) number("rope.freq_base", rope.theta);
    if (family_.rope.local_base != GgufLocalBase::kUnwritten) number("rope.freq_base_swa", config_.ropes[1].theta);
    if (family_.rope.states_size) size("rope.dimension_count", rotary_size(rope, attention_.head_dim));
    if (family_.rope.states_no_scaling) set("rope.scaling.type", "none");
    if (rope.type == RopeType::kLinear || rope.type == RopeType::kYarn) {
      set("rope.scaling.type", rope.type == RopeType::kYarn ? "yarn" : "linear");
      number("rope.scaling.factor", rope.factor);
    }
    if (rope.type == RopeType::kYarn || family_.rope.reads_longrope)
      size("rope.scaling.original_context_length", rope.original_max_position_embeddings);
    if (rope.type == RopeType::kYarn && family_.rope.reads_yarn_betas) {
      number("rope.scaling.yarn_beta_fast", rope.beta_fast);
      number("rope.scaling.yarn_beta_slow", rope.beta_slow);
    }
    if (config_.architecture->rope.scales_queries) {
      number("rope.scaling.yarn_log_multiplier", rope.mscale_all_dim);
      number("attention.temperature_scale", rope.llama_4_scaling_beta);
    }
    if (rope.type == RopeType::kLongrope) {
      number("rope.scaling.attn_factor", rope.attention_factor);
      result_.constants.push_back({"rope_factors_long.weight", in_f32(rope.long_factor)});
      result_.constants.push_back({"rope_factors_short.weight", in_f32(rope.short_factor)});
    }
    if (rope.type == RopeType::kLlama3) result_.constants.push_back({"rope_freqs.weight", rope_factors(config_)});
  }

 private:
  void set(std::string_view key, GgufEntry value) {
    result_.metadata.emplace_back(fmt::format("{}.{}", result_.model.architecture, key), std::move(value));
  }
  void set(std::string_view key, const char* text) { set(key, GgufEntry(std::string(text))); }
  void size(std::string_view key, int64_t value) { set(key, GgufEntry(static_cast<uint32_t>(value))); }
  void number(std::string_view key, double value) { set(key, GgufEntry(static_cast<float>(value))); }

  const DecoderConfig& config_;
  const GgufFamily& family_;
  const Attention& attention_;
  GgufDescription& result_;
};

}  // namespace

std::string gguf_architecture(const DecoderConfig& config) {
  const GgufFamily& family = family_of(config);
  const bool is_in_mistral3 = config.wrapper == "Mistral3ForConditionalGeneration" && !family.name_in_mistral3.empty();
  return std::string(is_in_mistral3 ? family.name_in_mistral3 : family.name);
}

void check_expressible(const DecoderConfig& config, std::string_view where) {
  const Check check(config, where);
  check.kind();
  check.sizes();
  check.ropes();
  for (int64_t layer = 0; layer < std::ssize(config.layers); ++layer) check.layer(layer);
}

GgufDescription describe_gguf(const DecoderConfig& config) {
  const Attention& attention = config.layers.front().attention;
  GgufDescription result{.model = {.architecture = gguf_architecture(config),
                                   .layers = std::ssize(config.layers),
                                   .heads = attention.heads,
                                   .kv_heads = attention.kv_heads,
                                   .vocabulary = config.vocab_size,
                                   .tied = config.tie_word_embeddings,
                                   .experts = most_experts(config)}};
  Describer describer(config, result);
  describer.add_sizes();
  describer.add_windows();
  describer.add_ropes();
  result.weights = gguf_weights(config);
  return result;
}

}  // namespace spillway
