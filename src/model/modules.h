// The parts of a decoder under their Hugging Face names: the one place that knows names and shapes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "tensor/shape.h"

namespace spillway {

inline constexpr std::string_view kEmbedding = "model.embed_tokens.weight";  // [V, D]
inline constexpr std::string_view kFinalNorm = "model.norm.weight";          // [D]
inline constexpr std::string_view kHead = "lm_head.weight";                  // [V, D]; kEmbedding where tied

// Not in any file: what rope_inverse_frequencies computes, f32 [head_dim / 2].
inline constexpr std::string_view kRopeFrequencies = "rope.inv_freq";

// A linear layer y = W x + b: `name`.weight is [out_features, in_features], `name`.bias [out_features].
struct LinearModule {
  std::string name;  // "model.layers.0.self_attn.q_proj"
  int64_t in_features = 0;
  int64_t out_features = 0;
  bool bias = false;
};

// The linear layers of a decoder layer, in the order in which a model's parameters are listed.
enum class Projection : uint8_t { kQuery, kKey, kValue, kOutput, kGate, kUp, kDown };
constexpr int kProjections = 7;
// "q_proj", ...
[[nodiscard]] std::string_view name_of(Projection projection);

[[nodiscard]] LinearModule linear_module(const ModelConfig& config, int64_t layer, Projection projection);

// "model.layers.3."
[[nodiscard]] std::string layer_prefix(int64_t layer);

// A tensor that a model folder or an adapter must hold.
struct WeightSpec {
  std::string name;
  Shape shape;
};

// All tensors of a model: embedding, layers, final norm and, unless it is tied, the head.
[[nodiscard]] std::vector<WeightSpec> model_weights(const ModelConfig& config);

// Whether weight decay applies to the parameter, as in transformers' Trainer: not to norms and biases.
[[nodiscard]] bool has_weight_decay(std::string_view name);

}  // namespace spillway
