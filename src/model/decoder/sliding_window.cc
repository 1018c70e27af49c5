#include "model/decoder/sliding_window.h"

#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace spillway {

int64_t window_of(const JsonField& json) {
  const bool none = json.has("sliding_window") && json["sliding_window"].is_null();
  return none ? 0 : json["sliding_window"].integer_or(4096, 1, kMaxPositions);
}

void read_layer_windows(const JsonField& json, DecoderConfig& config) {
  const size_t layers = config.sliding_window.size();
  const int64_t window = json["use_sliding_window"].boolean_or(false) ? window_of(json) : 0;
  const std::vector<std::string> layer_types = json["layer_types"].strings_or_none();
  if (layer_types.empty()) {
    const int64_t first = json["max_window_layers"].integer_or(28, 0, kMaxPositions);
    for (size_t layer = 0; layer < layers; ++layer) {
      if (static_cast<int64_t>(layer) >= first) config.sliding_window[layer] = window;
    }
    return;
  }
  if (layer_types.size() != layers) {
    throw input_error(json.where(),
                      "expected layer_types to list num_hidden_layers = {} layers, got {}; correct the list", layers,
                      layer_types.size());
  }
  for (size_t layer = 0; layer < layers; ++layer) {
    if (layer_types[layer] == "full_attention") continue;
    if (layer_types[layer] != "sliding_attention") {
      throw input_error(json.where(),
                        "expected layer_types of full_attention and sliding_attention, got {}; use a model "
                        "without it",
                        quote(layer_types[layer]));
    }
    if (window == 0) {
      throw input_error(json.where(),
                        "expected use_sliding_window and sliding_window beside a layer of type "
                        "sliding_attention, got none; set both, or make the layer full_attention");
    }
    config.sliding_window[layer] = window;
  }
}

}  // namespace spillway
