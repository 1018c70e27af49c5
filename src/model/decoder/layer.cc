#include "model/decoder/layer.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/model.h"

namespace spillway {

std::vector<LayerState> DecoderLayer::states() const {
  const auto last_tokens = [](int64_t taps, int64_t channels) {
    return LayerState{.name = kTokensState, .width = (taps - 1) * channels, .rows = StateRows::kPerSequence};
  };
  std::vector<LayerState> states;
  if (has_attention && !attention.keys_of) {
    states.push_back({.name = "key", .width = attention.key_width()});
    states.push_back({.name = "value", .width = attention.key_width()});
  }
  if (convolution) states.push_back(last_tokens(convolution->taps, convolution->channels));
  if (delta) {
    states.push_back(last_tokens(delta->taps, delta->channels()));
    states.push_back({.name = kMatrixState,
                      .width = delta->heads.key_dim * delta->value_width(),
                      .rows = StateRows::kPerSequence,
                      .dtype = DType::kF32});
  }
  if (scan) {
    states.push_back(last_tokens(scan->taps, scan->channels));
    states.push_back({.name = kScanState,
                      .width = scan->state * scan->channels,
                      .rows = StateRows::kPerSequence,
                      .dtype = DType::kF32});
  }
  return states;
}

LayerState DecoderLayer::state(std::string_view name) const {
  for (const LayerState& state : states())
    if (state.name == name) return state;
  SPILLWAY_CHECK(false, "the layer has no state {}", name);
}

void DecoderLayer::replace_attention(const ShortConvolution& part) {
  convolution = part;
  has_attention = false;
}

void DecoderLayer::replace_attention(const GatedDelta& part) {
  delta = part;
  has_attention = false;
}

void DecoderLayer::replace_attention(const SelectiveScan& part) {
  scan = part;
  has_attention = false;
}

void DecoderLayer::replace_feed_forward(const Mixture& part) {
  mixture = part;
  has_feed_forward = false;
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
