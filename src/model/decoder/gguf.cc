#include "model/decoder/gguf.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <string>
#include <utility>

#include "base/index.h"
#include "base/sizes.h"
#include "model/decoder/architecture.h"

namespace spillway {
namespace {

// The context_length of models whose heads do not turn, by the converter.
constexpr int64_t kContextWithoutRope = int64_t{1} << 20;

const GgufFamily& family_of(const DecoderConfig& config) { return config.architecture->gguf; }

// Returns the attention that metadata speak of: that of the first layer without a window, if there is one.
const Attention& main_attention(const DecoderConfig& config) {
  const auto found = std::find_if(config.layers.begin(), config.layers.end(),
                                  [](const DecoderLayer& layer) { return layer.attention.window == 0; });
  return found == config.layers.end() ? config.layers.front().attention : found->attention;
}

// Returns the first layer that has a mixture, or one behind the last.
auto first_mixture(const DecoderConfig& config) {
  return std::find_if(config.layers.begin(), config.layers.end(),
                      [](const DecoderLayer& layer) { return layer.mixture.has_value(); });
}

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

// Returns the factors by which elements of a head turn, or do not: llama.cpp divides by them.
std::vector<float> proportional_factors(const RopeConfig& rope, int64_t head_dim) {
  constexpr float kStill = 1e30F;
  const auto turning = static_cast<size_t>(rope.partial_rotary_factor * static_cast<double>(head_dim) / 2);
  auto factors = make_vector<float>(head_dim / 2, kStill);
  std::fill_n(factors.begin(), turning, 1.0F);
  return factors;
}

// Returns the distance of layers with attention, if that is always the same, else that of all released models.
int64_t attention_interval(const DecoderConfig& config) {
  constexpr int64_t kUsual = 4;
  const auto has_attention = [](const DecoderLayer& layer) { return !layer.delta; };
  const auto first = std::find_if(config.layers.begin(), config.layers.end(), has_attention);
  if (first == config.layers.end()) return kUsual;
  const int64_t interval = first - config.layers.begin() + 1;
  for (int64_t layer = 0; layer < std::ssize(config.layers); ++layer)
    if (has_attention(nth(config.layers, layer)) != ((layer + 1) % interval == 0)) return kUsual;
  return interval;
}

std::vector<float> in_f32(const std::vector<double>& values) { return {values.begin(), values.end()}; }

std::vector<int64_t> layers_with_values(const DecoderConfig& config) {
  std::vector<int64_t> result;
  for (int64_t index = 0; index < std::ssize(config.layers); ++index) {
    const DecoderLayer& layer = nth(config.layers, index);
    const Attention& attention = layer.attention;
    const bool has_heads = layer.has_attention && !attention.latent && !attention.values_are_keys && !attention.keys_of;
    const bool has_rule = layer.delta && layer.delta->heads.rule == ops::StateRule::kCorrects;
    if (has_rule || has_heads) result.push_back(index);
  }
  return result;
}

std::vector<int64_t> layers_with_down(const DecoderConfig& config) {
  std::vector<int64_t> result;
  for (int64_t index = 0; index < std::ssize(config.layers); ++index)
    if (const DecoderLayer& layer = nth(config.layers, index); layer.has_feed_forward || layer.mixture)
      result.push_back(index);
  return result;
}

// Fills the metadata of a description.
class Describer {
 public:
  Describer(const DecoderConfig& config, GgufDescription& result)
      : config_(config), family_(family_of(config)), attention_(main_attention(config)), result_(result) {}

  void add_sizes() {
    size("block_count", std::ssize(config_.layers));
    size("context_length", is_still() ? kContextWithoutRope : config_.max_position_embeddings);
    size("embedding_length", config_.hidden_size);
    add_widths();
    const bool is_rms = config_.architecture->norm.kind == NormKind::kRms && !family_.has_layer_norm_eps;
    number(is_rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", config_.norm_eps);
    if (family_.states_vocabulary) size("vocab_size", config_.vocab_size);
    for (const GgufKey& key : family_.keys)
      if (const double value = key.value(config_); value != 0) number(key.gguf, value);
    for (const GgufCount& count : family_.counts) size(count.gguf, count.value(config_));
  }

  void add_heads() {
    size("attention.head_count", attention_.heads);
    if (attention_.latent) return add_latent_heads(*attention_.latent);
    add_kv_heads();
    if (family_.head_size == GgufHeadSize::kWritten ||
        (family_.head_size == GgufHeadSize::kWrittenIfNamed && config_.names_head_dim)) {
      size("attention.key_length", attention_.head_dim);
      size("attention.value_length", attention_.head_dim);
    }
    if (!family_.states_local_heads) return;
    const int64_t local = local_head_dim();
    size("attention.key_length_swa", local);
    size("attention.value_length_swa", local);
    size("rope.dimension_count_swa", rotary_size(config_.ropes[1], local));
  }

  void add_kv_heads() {
    std::vector<int32_t> heads;
    for (const DecoderLayer& layer : config_.layers) {
      const bool has_keys = layer.has_attention || !family_.lists_keys;
      heads.push_back(has_keys ? static_cast<int32_t>(layer.attention.kv_heads) : 0);
    }
    set_by_layer("attention.head_count_kv", std::move(heads));
  }

  // llama.cpp lets all heads see one common row, which is as wide as what keys are made of and what turns.
  void add_latent_heads(const LatentHeads& latent) {
    size("attention.head_count_kv", 1);
    if (latent.query_rank > 0) size("attention.q_lora_rank", latent.query_rank);
    size("attention.kv_lora_rank", latent.key_rank);
    size("attention.key_length", latent.key_rank + latent.rotated);
    size("attention.value_length", latent.key_rank);
    size("attention.key_length_mla", attention_.head_dim);
    size("attention.value_length_mla", latent.value_dim);
  }

  void add_states() {
    const auto delta = std::find_if(config_.layers.begin(), config_.layers.end(),
                                    [](const DecoderLayer& layer) { return layer.delta.has_value(); });
    const auto convolution = std::find_if(config_.layers.begin(), config_.layers.end(),
                                          [](const DecoderLayer& layer) { return layer.convolution.has_value(); });
    if (convolution != config_.layers.end()) size("shortconv.l_cache", convolution->convolution->taps);
    add_scan();
    if (delta == config_.layers.end()) return;
    size("ssm.conv_kernel", delta->delta->taps);
    size("ssm.state_size", delta->delta->heads.key_dim);
    size("ssm.group_count", delta->delta->heads.key_heads);
    size("ssm.time_step_rank", delta->delta->heads.value_heads);
    size("ssm.inner_size", delta->delta->value_width());
    if (family_.space.is_there) return;
    std::vector<bool> has_state;
    for (const DecoderLayer& layer : config_.layers) has_state.push_back(layer.delta.has_value());
    set("attention.recurrent_layers", std::move(has_state));
    size("full_attention_interval", attention_interval(config_));
  }

  void add_scan() {
    const auto found = std::find_if(config_.layers.begin(), config_.layers.end(),
                                    [](const DecoderLayer& layer) { return layer.scan.has_value(); });
    if (found == config_.layers.end()) return;
    size("ssm.conv_kernel", found->scan->taps);
    size("ssm.inner_size", found->scan->channels);
    size("ssm.state_size", found->scan->state);
    size("ssm.time_step_rank", found->scan->step_rank);
  }

  void add_mixture() {
    const auto first = first_mixture(config_);
    if (first == config_.layers.end()) return;
    const Mixture& mixture = *first->mixture;
    const GgufMixture& family = family_.mixture;
    const int64_t shared = family.shares_feed_forward ? first->feed_forward.inner : mixture.shared_inner;
    size("expert_count", mixture.experts);
    size("expert_used_count", mixture.route.top_k);
    if (family.states_inner_width) size("expert_feed_forward_length", mixture.inner);
    if (family.shared == GgufShared::kCount) {
      size("expert_shared_count", shared / mixture.inner);
    } else if (shared > 0) {
      size("expert_shared_feed_forward_length", shared);
      if (family.states_one_shared) size("expert_shared_count", 1);
    }
    if (mixture.latent > 0) size("moe_latent_size", mixture.latent);
    if (!family.dense.empty()) size("leading_dense_block_count", first - config_.layers.begin());
    add_routing(mixture.route);
  }

  void add_windows() {
    const int64_t window = longest_window(config_);
    if (family_.windows == GgufWindows::kNoLayer || (window == 0 && family_.windows != GgufWindows::kUnread)) return;
    size("attention.sliding_window", window);
    if (family_.windows != GgufWindows::kListed) return;
    std::vector<bool> has_window;
    for (const DecoderLayer& layer : config_.layers) has_window.push_back(layer.attention.window > 0);
    set("attention.sliding_window_pattern", std::move(has_window));
  }

  void add_ropes() {
    const RopeConfig& rope = config_.ropes.front();
    if (family_.rope.never_turns || family_.rope.always_turns || !family_.rope.turning_key.empty())
      set("rope.scaling.finetuned", !is_still());
    if (family_.rope.has_base) number("rope.freq_base", rope.theta);
    if (family_.rope.local_base != GgufLocalBase::kUnwritten) number("rope.freq_base_swa", config_.ropes[1].theta);
    if (family_.rope.states_size) size("rope.dimension_count", turned_elements(rope));
    if (family_.rope.has_sections) set("rope.dimension_sections", sections(rope));
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
      if (!attention_.latent) number("rope.scaling.yarn_log_multiplier", rope.mscale_all_dim);
      number("attention.temperature_scale", rope.llama_4_scaling_beta);
      if (attention_.latent) size("attention.temperature_length", rope.original_max_position_embeddings);
    }
    if (attention_.latent && rope.type == RopeType::kYarn) {
      constexpr double kPerMscale = 0.1;  // of latent attention the file has mscale_all_dim times this
      number("rope.scaling.yarn_log_multiplier", kPerMscale * rope.mscale_all_dim);
    }
    if (rope.type == RopeType::kLongrope) {
      number("rope.scaling.attn_factor", rope.attention_factor);
      result_.constants.push_back({"rope_factors_long.weight", in_f32(rope.long_factor)});
      result_.constants.push_back({"rope_factors_short.weight", in_f32(rope.short_factor)});
    }
    if (rope.type == RopeType::kProportional)
      result_.constants.push_back({"rope_freqs.weight", proportional_factors(rope, attention_.head_dim)});
    if (rope.type == RopeType::kLlama3) result_.constants.push_back({"rope_freqs.weight", rope_factors(config_)});
  }

 private:
  // Where none turn, the converter's number goes by the width of a row.
  [[nodiscard]] int64_t turned_elements(const RopeConfig& rope) const {
    return family_.rope.never_turns ? config_.hidden_size / attention_.heads : rotary_size(rope, attention_.rope_dim());
  }

  // Returns true where metadata say that no head turns.
  [[nodiscard]] bool is_still() const {
    const bool is_said = family_.rope.never_turns || !family_.rope.turning_key.empty();
    return is_said && std::none_of(config_.layers.begin(), config_.layers.end(), [](const DecoderLayer& layer) {
             return layer.has_attention && layer.attention.rope.has_value();
           });
  }

  void add_widths() {
    std::vector<int32_t> widths;
    for (const DecoderLayer& layer : config_.layers) {
      const bool of_experts = layer.mixture && (!family_.mixture.states_inner_width || family_.lists_widths);
      const bool has_width = layer.has_feed_forward || layer.mixture || !family_.lists_widths;
      const int64_t inner = of_experts ? layer.mixture->inner : layer.feed_forward.inner;
      widths.push_back(has_width ? static_cast<int32_t>(inner) : 0);
    }
    if (!family_.lists_widths && family_.double_width_key.empty()) widths.resize(1);
    if (family_.lists_widths || widths.front() > 0) set_by_layer("feed_forward_length", std::move(widths));
  }

  void add_routing(const ops::RouteOptions& route) {
    constexpr int64_t kSoftmax = 1, kSigmoid = 2;  // by llama.cpp's numbers
    const GgufMixture& family = family_.mixture;
    if (family.states_gating)
      size("expert_gating_func", route.score == ops::RouteScore::kSigmoid ? kSigmoid : kSoftmax);
    if (family.states_groups) {
      size("expert_group_count", route.groups);
      size("expert_group_used_count", route.top_groups);
    }
    if (!family.states_scale) return;
    number("expert_weights_scale", route.scale);
    if (route.normalises) set("expert_weights_norm", true);
  }

  // Returns the size of heads of layers with a window, or of all.
  [[nodiscard]] int64_t local_head_dim() const {
    const auto local = std::find_if(config_.layers.begin(), config_.layers.end(),
                                    [](const DecoderLayer& layer) { return layer.attention.window > 0; });
    return local == config_.layers.end() ? attention_.head_dim : local->attention.head_dim;
  }

  // llama.cpp reads four.
  static std::vector<int32_t> sections(const RopeConfig& rope) {
    std::vector<int32_t> result(rope.mrope_section.begin(), rope.mrope_section.end());
    result.resize(4, 0);
    return result;
  }

  // Sets one number where it is that of all layers.
  void set_by_layer(std::string_view key, std::vector<int32_t> values) {
    if (std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) == values.end())
      return size(key, values.front());
    set(key, std::move(values));
  }
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
  const auto has_state = [](const DecoderLayer& layer) { return layer.delta.has_value(); };
  if (!family.name_with_experts.empty() && first_mixture(config) != config.layers.end())
    return std::string(family.name_with_experts);
  if (!family.name_without_states.empty() && std::none_of(config.layers.begin(), config.layers.end(), has_state))
    return std::string(family.name_without_states);
  const bool is_in_mistral3 = config.wrapper == "Mistral3ForConditionalGeneration" && !family.name_in_mistral3.empty();
  return std::string(is_in_mistral3 ? family.name_in_mistral3 : family.name);
}

GgufDescription describe_gguf(const DecoderConfig& config) {
  const Attention& attention = main_attention(config);
  const auto mixture = first_mixture(config);
  GgufDescription result{.model = {.architecture = gguf_architecture(config),
                                   .layers = std::ssize(config.layers),
                                   .heads = attention.heads,
                                   .kv_heads = attention.kv_heads,
                                   .vocabulary = config.vocab_size,
                                   .tied = config.tie_word_embeddings,
                                   .experts = mixture == config.layers.end() ? 0 : mixture->mixture->experts,
                                   .value_layers = layers_with_values(config),
                                   .down_layers = layers_with_down(config)}};
  Describer describer(config, result);
  describer.add_sizes();
  describer.add_heads();
  describer.add_states();
  describer.add_mixture();
  describer.add_windows();
  describer.add_ropes();
  add_gguf_weights(config, result);
  return result;
}

}  // namespace spillway
