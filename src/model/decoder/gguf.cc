#include "model/decoder/gguf.h"

#include <cmath>
#include <numbers>
#include <string>

#include "base/error.h"
#include "base/text.h"
#include "model/decoder/architecture.h"

namespace spillway {
namespace {

[[noreturn]] void refuse(std::string_view where, std::string_view key, std::string_view expected,
                         std::string_view got) {
  throw input_error(fmt::format("{}: {}", where, key),
                    "expected {}, which is what llama.cpp computes, got {}; use the folder itself, or another model",
                    expected, got);
}

void check_expressible(const DecoderConfig& config, std::string_view where) {
  const Architecture& architecture = *config.architecture;
  if (architecture.gguf.name.empty()) {
    throw input_error(
        fmt::format("{}: architectures", where),
        "expected a family that can be written as GGUF (Llama, Mistral, Qwen2, Qwen3), got {}; use the folder "
        "itself, or convert it with llama.cpp's convert_hf_to_gguf.py",
        architecture.name);
  }
  if (!config.wrapper.empty()) {
    throw input_error(
        fmt::format("{}: architectures", where),
        "expected a model of text that stands alone, got {}; use the folder itself, or convert it with llama.cpp's "
        "convert_hf_to_gguf.py, and its towers with --mmproj",
        config.wrapper);
  }
  if (config.score) {
    throw input_error(fmt::format("{}: architectures", where),
                      "expected a model that predicts tokens, got one that scores; use the folder itself");
  }
  if (config.quantisation) {
    throw input_error(fmt::format("{}: quantization_config", where),
                      "expected a model in f32, f16 or bf16, got quantised weights; export the model that they were "
                      "made of, or merge an adapter into it first (spillway merge)");
  }
  for (const DecoderLayer& layer : config.layers) {
    const int64_t window = layer.attention.window;
    if (window > 0 && window < config.max_position_embeddings)
      refuse(where, "sliding_window", "attention to all tokens", fmt::format("a window of {}", window));
  }
  const RopeType rope = config.ropes.front().type;
  const std::string_view known = architecture.gguf.has_rope_factors ? "default, linear or llama3" : "default or linear";
  if (rope == RopeType::kLlama3 && !architecture.gguf.has_rope_factors)
    refuse(where, "rope_scaling.rope_type", known, "llama3");
  if (rope == RopeType::kYarn || rope == RopeType::kLongrope)
    refuse(where, "rope_scaling.rope_type", known, rope == RopeType::kYarn ? "yarn" : "longrope");
}

// What llama.cpp divides the frequencies by, in f32 step by step, as the converter computes it.
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

// GGUF states one size for all layers. Those of the families that it has a name for are alike.
GgufModel sizes_of(const DecoderConfig& config) {
  const Attention& attention = config.layers.front().attention;
  const FeedForward& feed_forward = config.layers.front().feed_forward;
  return {.architecture = std::string(config.architecture->gguf.name),
          .layers = std::ssize(config.layers),
          .hidden = config.hidden_size,
          .intermediate = feed_forward.inner,
          .vocabulary = config.vocab_size,
          .heads = attention.heads,
          .kv_heads = attention.kv_heads,
          .head_dim = attention.head_dim,
          .tied = config.tie_word_embeddings,
          .qkv_bias = attention.qkv_bias,
          .output_bias = attention.output_bias,
          .mlp_bias = feed_forward.bias};
}

}  // namespace

GgufDescription describe_gguf(const DecoderConfig& config, std::string_view where) {
  check_expressible(config, where);
  const Architecture::Gguf& gguf = config.architecture->gguf;
  GgufDescription result{.model = sizes_of(config)};
  const GgufModel& sizes = result.model;
  const RopeConfig& rope = config.ropes.front();
  const auto set = [&](std::string_view key, GgufEntry value) {
    result.metadata.emplace_back(fmt::format("{}.{}", gguf.name, key), std::move(value));
  };
  const auto set_size = [&](std::string_view key, int64_t value) { set(key, static_cast<uint32_t>(value)); };
  set_size("block_count", sizes.layers);
  set_size("context_length", config.max_position_embeddings);
  set_size("embedding_length", sizes.hidden);
  set_size("feed_forward_length", sizes.intermediate);
  set_size("attention.head_count", sizes.heads);
  set_size("attention.head_count_kv", sizes.kv_heads);
  if (rope.type == RopeType::kLinear) {
    set("rope.scaling.type", "linear");
    set("rope.scaling.factor", static_cast<float>(rope.factor));
  }
  set("rope.freq_base", static_cast<float>(rope.theta));
  set("attention.layer_norm_rms_epsilon", static_cast<float>(config.norm_eps));
  if (gguf.always_has_head_size || config.names_head_dim) {
    set_size("attention.key_length", sizes.head_dim);
    set_size("attention.value_length", sizes.head_dim);
  }
  if (gguf.has_rope_factors) {
    set_size("vocab_size", config.vocab_size);
    set_size("rope.dimension_count", sizes.head_dim);
  }
  if (rope.type == RopeType::kLlama3) result.rope_factors = rope_factors(config);
  return result;
}

}  // namespace spillway
