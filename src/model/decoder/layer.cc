#include "model/decoder/layer.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/model.h"

namespace spillway {

std::vector<LayerState> DecoderLayer::states() const {
  const auto last_tokens = [](int64_t taps, int64_t channels) {
    return LayerState{.name = "convolution", .width = (taps - 1) * channels, .rows = StateRows::kPerSequence};
  };
  if (convolution) return {last_tokens(convolution->taps, convolution->channels)};
  if (delta)
    return {last_tokens(delta->taps, delta->channels()),
            {.name = "delta",
             .width = delta->heads.key_dim * delta->value_width(),
             .rows = StateRows::kPerSequence,
             .dtype = DType::kF32}};
  if (attention.keys_of) return {};
  return {{.name = "key", .width = attention.key_width()}, {.name = "value", .width = attention.key_width()}};
}

void set_biases(std::span<DecoderLayer> layers, const Biases& biases) {
  for (DecoderLayer& layer : layers) {
    layer.attention.qkv_bias = biases.qkv;
    layer.attention.output_bias = biases.output;
    layer.feed_forward.bias = biases.feed_forward;
  }
}

std::vector<int64_t> attention_windows(const Model& model) {
  std::vector<int64_t> windows;
  if (const TextModel* const text = model.text()) {
    for (const DecoderLayer& layer : text->layers()) windows.push_back(layer.attention.window);
  }
  return windows;
}

bool has_mixture(const Model& model) {
  if (model.text() == nullptr) return false;
  const std::vector<DecoderLayer>& layers = model.text()->layers();
  return std::any_of(layers.begin(), layers.end(), [](const DecoderLayer& layer) { return layer.mixture.has_value(); });
}

std::string layer_prefix(int64_t layer) { return fmt::format("model.layers.{}.", layer); }

}  // namespace spillway
