// Checks what llama.cpp computes of a decoder against what its config.json says.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "base/log.h"
#include "base/text.h"
#include "model/decoder/architecture.h"
#include "model/decoder/gguf.h"

namespace spillway {
namespace {

bool is_window(const DecoderConfig& config, const DecoderLayer& layer) {
  return layer.attention.window > 0 && layer.attention.window < config.max_position_embeddings;
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
      : config_(config), family_(config.architecture->gguf), where_(where) {}

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
    if (config_.quantisation && config_.quantisation->format.coding != WeightCoding::kFp8) {
      throw input_error(fmt::format("{}: quantization_config", where_),
                        "expected a model in f32, f16, bf16 or fp8, got weights in another quantised format; export "
                        "the model that they were made of, or merge an adapter into it first (spillway merge)");
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
    if (!family_.embedding_scale_key.empty() && config_.embedding_scale == 1)
      refuse(family_.embedding_scale_key, "true", "false");
    if (family_.windows == GgufWindows::kUnread && is_window(config_, config_.layers.front())) {
      log_warning("{}: sliding_window: llama.cpp reads {} and lets all tokens see those before them all the same",
                  where_, longest_window(config_));
    }
    for (const GgufKey& key : family_.keys)
      if (key.is_needed && key.value(config_) == 0) refuse(key.config, "a number", "none");
    const auto has_any = [&](auto is_one) { return std::any_of(config_.layers.begin(), config_.layers.end(), is_one); };
    if (family_.lists_widths && has_any([](const DecoderLayer& layer) { return layer.mixture.has_value(); }) &&
        has_any([](const DecoderLayer& layer) { return layer.has_feed_forward; }))
      refuse("layers_block_type", "layers of mlp or of moe", "both");
    if (has_any([](const DecoderLayer& layer) { return layer.delta && layer.delta->steps.least > 0; }))
      log_warning("{}: llama.cpp does not bound time steps from below, as transformers does (time_step_min)", where_);
  }

  void layer(int64_t index) const {
    const DecoderLayer& layer = nth(config_.layers, index);
    if (layer.convolution && layer.convolution->bias) refuse("conv_bias", "no biases", "some");
    if (layer.delta) layer.delta->heads.rule == ops::StateRule::kAdds ? space(*layer.delta) : delta(*layer.delta);
    if (layer.scan) scan(*layer.scan);
    if (layer.has_attention) attention(index);
    if (layer.feed_forward.bias && !family_.biases.feed_forward) refuse("mlp_bias", "no biases", "some");
    if (layer.attention.keys_of) keys_of_others(index);
    if (layer.input_width > 0 && family_.input_rows_key.empty())
      refuse("hidden_size_per_layer_input", "0", fmt::format("{}", layer.input_width));
    mixture(index);
  }

  void ropes() const {
    const RopeConfig& rope = config_.ropes.front();
    const auto known = [&](bool is_known) {
      if (!is_known) refuse("rope_scaling.rope_type", known_ropes(), quote(name_of(rope.type)));
    };
    switch (rope.type) {
      case RopeType::kDefault:
        known(!config_.architecture->rope.scales_queries && !family_.rope.reads_proportion);
        break;
      case RopeType::kLinear:
        known(stretches_linearly());
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
        known(family_.rope.reads_proportion);
        if (rope.factor != 1) refuse("rope_parameters.full_attention.factor", "1", fmt::format("{}", rope.factor));
        break;
    }
    const int64_t sections = std::accumulate(rope.mrope_section.begin(), rope.mrope_section.end(), int64_t{0});
    if (const int64_t head = config_.layers.front().attention.head_dim; family_.rope.has_sections && sections > head)
      refuse("rope_parameters.mrope_section", fmt::format("at most head_dim = {} in all", head),
             fmt::format("{}", sections));
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
    if (family_.rope.reads_proportion) return "proportional";
    std::vector<std::string_view> names = {"default"};
    if (stretches_linearly()) names.emplace_back("linear");
    if (family_.rope.may_stretch) names.emplace_back("yarn");
    if (family_.rope.reads_factors) names.emplace_back("llama3");
    if (family_.rope.reads_longrope) names.emplace_back("longrope");
    return joined_names(names);
  }

  void yarn(const RopeConfig& rope) const {
    if (!family_.rope.reads_yarn_betas && (rope.beta_fast != 32 || rope.beta_slow != 1)) {
      refuse("rope_scaling.beta_fast, beta_slow", "32 and 1", fmt::format("{} and {}", rope.beta_fast, rope.beta_slow));
    }
    if (!rope.truncate && !family_.rope.has_real_yarn_bounds) refuse("rope_scaling.truncate", "true", "false");
    if (!rope.truncate)
      log_warning("{}: rope_scaling.truncate: llama.cpp rounds YaRN's bounds for this family all the same", where_);
    if (is_latent() && rope.mscale_all_dim == 0) refuse("rope_scaling.mscale_all_dim", "a number", "none");
    // For DeepSeek alone, llama.cpp takes a number for all of a head as that of what turns, too.
    if (is_latent() && config_.architecture->rope.scales_queries && rope.mscale_all_dim != 1)
      refuse("rope_scaling.mscale_all_dim", "1", fmt::format("{}", rope.mscale_all_dim));
    const double of_all = config_.architecture->rope.scales_queries ? rope.mscale_all_dim : 0;
    const double factor = is_latent() ? 1 : yarn_scale(rope.factor, 1) / yarn_scale(rope.factor, of_all);
    if (!is_near(rope.attention_factor, factor))
      refuse("rope_scaling.attention_factor", fmt::format("{}", factor), fmt::format("{}", rope.attention_factor));
  }

  [[nodiscard]] bool is_latent() const { return config_.layers.front().attention.latent.has_value(); }
  [[nodiscard]] bool stretches_linearly() const {
    return family_.rope.may_stretch && !config_.architecture->rope.scales_queries && !is_latent();
  }

  void attention(int64_t index) const {
    const Attention& attention = nth(config_.layers, index).attention;
    if (attention.qkv_bias && !family_.biases.qkv) refuse("attention_bias", "no biases", "some");
    if (attention.output_bias && !family_.biases.output)
      refuse("attention_bias, attention_out_bias", "no bias behind attention", "one");
    if (!attention.output_bias && family_.biases.output && !family_.biases.vary)
      refuse("attention_bias", "biases", "none");
    if (attention.latent) query_rank(*attention.latent);
    window(index);
    if (attention.rope.has_value() != turns(index)) {
      refuse("no_rope_layers",
             turns(index) ? fmt::format("layer {} rotated", index) : fmt::format("layer {} not rotated", index),
             "the contrary");
    }
    const double expected = family_.has_unit_scores ? 1 : assumed_scale(attention);
    if (!family_.states_score_scale && !family_.folds_scales && !is_near(attention.scale, expected))
      refuse("query_pre_attn_scalar", fmt::format("{}", std::round(1 / std::pow(expected, 2))),
             fmt::format("{}", 1 / std::pow(attention.scale, 2)));
    const bool has_cap = std::any_of(family_.keys.begin(), family_.keys.end(),
                                     [](const GgufKey& key) { return key.gguf == "attn_logit_softcapping"; });
    if (attention.soft_cap > 0 && !has_cap) refuse("attn_logit_softcapping", "none", "one");
  }

  // llama.cpp takes keys of the last layer that has its own, or with a window of the one before (src/llama-model.cpp).
  void keys_of_others(int64_t index) const {
    if (family_.double_width_key.empty()) refuse("num_kv_shared_layers", "0", "another number");
    int64_t own = index;
    while (own > 0 && nth(config_.layers, own - 1).attention.keys_of) --own;
    const Attention& attention = nth(config_.layers, index).attention;
    const int64_t source = own - (attention.window > 0 ? 2 : 1);
    if (*attention.keys_of != source)
      refuse("num_kv_shared_layers, layer_types", fmt::format("layer {} to take keys of layer {}", index, source),
             fmt::format("layer {}", *attention.keys_of));
  }

  // llama.cpp goes by the number of layers (src/models/deepseek2.cpp).
  void query_rank(const LatentHeads& latent) const {
    const auto layers = std::ssize(config_.layers);
    constexpr int64_t kSmaller = 26, kSmall = 27, kKanana = 48, kTokensOfKanana = 128256;
    const bool is_small =
        layers == kSmaller || layers == kSmall || (layers == kKanana && config_.vocab_size == kTokensOfKanana);
    if ((latent.query_rank == 0) == is_small) return;
    refuse("q_lora_rank", fmt::format("{} for a model of {} layers", is_small ? "null" : "a number", layers),
           is_small ? fmt::format("{}", latent.query_rank) : "null");
  }

  void delta(const GatedDelta& delta) const {
    if (delta.heads.value_dim != delta.heads.key_dim)
      refuse("linear_value_head_dim", fmt::format("linear_key_head_dim = {}", delta.heads.key_dim),
             fmt::format("{}", delta.heads.value_dim));
  }

  void space(const GatedDelta& space) const {
    const GgufSpace& family = family_.space;
    if (space.bias || space.output_bias) refuse("mamba_proj_bias", "no biases", "some");
    if (!space.conv_bias && family.always_adds_bias) refuse("mamba_conv_bias", "true", "false");
    if (space.norm == StateNorm::kBeforeGate) refuse("mamba_norm_before_gate", "false", "true");
    if (space.steps.most < std::numeric_limits<double>::infinity())
      refuse("time_step_limit", "no upper bound", fmt::format("{}", space.steps.most));
    const int64_t width = family.expand * config_.hidden_size;
    if (family.expand > 0 && space.value_width() != width)
      refuse("mamba_expand", fmt::format("{}", family.expand), "another number");
  }

  void scan(const SelectiveScan& scan) const {
    if (scan.bias) refuse("mamba_proj_bias", "false", "true");
    if (!scan.conv_bias) refuse("mamba_conv_bias", "true", "false");
    if (scan.channels != family_.scan.expand * config_.hidden_size)
      refuse("mamba_expand", fmt::format("{}", family_.scan.expand), "another number");
  }

  [[nodiscard]] bool turns(int64_t index) const {
    if (family_.rope.never_turns || family_.rope.is_absent) return false;
    if (!family_.rope.turning_key.empty()) return nth(config_.layers, index).attention.rope.has_value();
    if (family_.rope.nth_is_still > 0) return (index + 1) % family_.rope.nth_is_still != 0;
    return !family_.rope.turns_in_windows_only || nth(config_.layers, index).attention.window > 0;
  }

  [[nodiscard]] double assumed_scale(const Attention& attention) const {
    const bool is_wide = std::ssize(config_.layers) == family_.layers_of_wide_scale;
    return 1 / std::sqrt(static_cast<double>(is_wide ? config_.hidden_size / attention.heads : attention.head_dim));
  }

  void mixture(int64_t index) const {
    const std::optional<Mixture>& mixture = nth(config_.layers, index).mixture;
    const GgufMixture& family = family_.mixture;
    if (!family.is_there) return;
    if (mixture) return mixture_numbers(*mixture);
    if (family.may_be_absent || !family.layers.period.empty()) return;
    if (!family.dense.empty()) {
      const bool is_behind = index > 0 && nth(config_.layers, index - 1).mixture.has_value();
      if (is_behind || index + 1 == std::ssize(config_.layers))
        refuse("first_k_dense_replace, mlp_layer_types, num_dense_layers, n_routed_experts",
               "experts in all layers behind the first", fmt::format("none in layer {}", index));
    } else if (family.flag.empty()) {
      refuse("mlp_only_layers, decoder_sparse_step", "experts in all layers", fmt::format("none in layer {}", index));
    }
  }

  void mixture_numbers(const Mixture& mixture) const {
    const GgufMixture& family = family_.mixture;
    const ops::RouteOptions& route = mixture.route;
    if (!family.states_scale && route.score != ops::RouteScore::kSoftmaxOfChosen &&
        route.normalises != family.normalises)
      refuse(family.norm_key, family.normalises ? "true" : "false", route.normalises ? "true" : "false");
    if (!family.states_scale && route.scale != 1) refuse(family.scale_key, "1", fmt::format("{}", route.scale));
    if (route.groups > 1 && (!family.states_groups || route.best_of_group != 2))
      refuse("n_group, topk_method", "one group, or scores of groups by their two best experts",
             fmt::format("{} groups", route.groups));
    if (family.needs_choice_bias && mixture.choice_bias.empty()) refuse("use_expert_bias", "true", "false");
    constexpr double kAlpha = 1.702, kLimit = 7;  // of llama.cpp's activation for fused experts
    if (!mixture.fused) return;
    if (!is_near(mixture.fused->alpha, kAlpha))
      refuse("swiglu_alpha", fmt::format("{}", kAlpha), fmt::format("{}", mixture.fused->alpha));
    if (!is_near(mixture.fused->limit, kLimit))
      refuse("swiglu_limit", fmt::format("{}", kLimit), fmt::format("{}", mixture.fused->limit));
  }

  void window(int64_t index) const {
    const DecoderLayer& layer = nth(config_.layers, index);
    const int64_t longest = longest_window(config_), window = layer.attention.window;
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

}  // namespace

int64_t longest_window(const DecoderConfig& config) {
  int64_t window = 0;
  for (const DecoderLayer& layer : config.layers) window = std::max(window, layer.attention.window);
  return window;
}

void check_expressible(const DecoderConfig& config, std::string_view where) {
  const Check check(config, where);
  check.kind();
  check.sizes();
  check.ropes();
  for (int64_t layer = 0; layer < std::ssize(config.layers); ++layer) check.layer(layer);
}

}  // namespace spillway
