#include "model/decoder/sliding_window.h"

#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace spillway {
namespace {

constexpr std::string_view kFullAttention = "full_attention", kSlidingAttention = "sliding_attention";

}  // namespace

void set_layer_windows(const JsonField& json, const std::vector<std::string>& layer_types, int64_t window,
                       std::string_view needed, DecoderConfig& config) {
  const size_t layers = config.layers.size();
  if (layer_types.size() != layers) {
    throw input_error(json.where(),
                      "expected layer_types to list num_hidden_layers = {} layers, got {}; correct the list", layers,
                      layer_types.size());
  }
  for (size_t layer = 0; layer < layers; ++layer) {
    int64_t& window_of_layer = config.layers[layer].attention.window;
    window_of_layer = 0;
    if (layer_types[layer] == kFullAttention) continue;
    if (layer_types[layer] != kSlidingAttention) {
      throw input_error(json.where(),
                        "expected layer_types of full_attention and sliding_attention, got {}; use a model "
                        "without it",
                        quote(layer_types[layer]));
    }
    if (window == 0) {
      throw input_error(json.where(),
                        "expected {} beside a layer of type sliding_attention, got none; set {}, or make the layer "
                        "full_attention",
                        needed, needed);
    }
    window_of_layer = window;
  }
}

int64_t window_of(const JsonField& json, int64_t missing) {
  const bool none = json.has("sliding_window") && json["sliding_window"].is_null();
  return none ? 0 : json["sliding_window"].integer_or(missing, 1, kMaxPositions);
}

void set_windows(int64_t window, DecoderConfig& config) {
  for (DecoderLayer& layer : config.layers) layer.attention.window = window;
}

void read_layer_windows(const JsonField& json, DecoderConfig& config) {
  const size_t layers = config.layers.size();
  const int64_t window = json["use_sliding_window"].boolean_or(false) ? window_of(json) : 0;
  const std::vector<std::string> layer_types = json["layer_types"].strings_or_none();
  if (!layer_types.empty())
    return set_layer_windows(json, layer_types, window, "use_sliding_window and sliding_window", config);
  const int64_t first = json["max_window_layers"].integer_or(28, 0, kMaxPositions);
  for (size_t layer = 0; layer < layers; ++layer) {
    if (static_cast<int64_t>(layer) >= first) config.layers[layer].attention.window = window;
  }
}

void read_patterned_windows(const JsonField& json, int64_t pattern, DecoderConfig& config, int64_t missing) {
  std::vector<std::string> layer_types = json["layer_types"].strings_or_none();
  if (layer_types.empty()) {
    for (int64_t layer = 1; layer <= std::ssize(config.layers); ++layer)
      layer_types.emplace_back(layer % pattern == 0 ? kFullAttention : kSlidingAttention);
  }
  set_layer_windows(json, layer_types, window_of(json, missing), "sliding_window", config);
}

}  // namespace spillway
