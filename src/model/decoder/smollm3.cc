// SmolLM3: Llama without rotation in every fourth layer.
#include <string>
#include <vector>

#include "base/error.h"
#include "model/decoder/architecture.h"
#include "model/decoder/sliding_window.h"

namespace spillway::architectures {
namespace {

// `no_rope_layers` is 1 where a layer is rotated.
std::vector<bool> read_rotates(const JsonField& json, int64_t layers) {
  std::vector<bool> rotates;
  if (json["no_rope_layers"].is_null()) {
    const int64_t interval = json["no_rope_layer_interval"].integer_or(4, 1, kMaxPositions);
    for (int64_t layer = 1; layer <= layers; ++layer) rotates.push_back(layer % interval != 0);
    return rotates;
  }
  for (const int64_t one : json["no_rope_layers"].integers(0, 1)) rotates.push_back(one != 0);
  if (std::ssize(rotates) < layers) {
    throw input_error(json.where(), "expected no_rope_layers to list num_hidden_layers = {} layers, got {}; correct it",
                      layers, rotates.size());
  }
  return rotates;
}

void read_smollm3(const JsonField& json, DecoderConfig& config) {
  config.qkv_bias = config.output_bias = json["attention_bias"].boolean_or(false);
  config.mlp_bias = json["mlp_bias"].boolean_or(false);
  config.rotates = read_rotates(json, config.num_hidden_layers);
  const bool has_windows = json["use_sliding_window"].boolean_or(false) && !json["sliding_window"].is_null();
  const int64_t window = has_windows ? window_of(json) : 0;
  if (const std::vector<std::string> types = json["layer_types"].strings_or_none(); !types.empty())
    return set_layer_windows(json, types, window, "use_sliding_window and sliding_window", config);
  for (size_t layer = 0; layer < config.sliding_window.size(); ++layer)
    config.sliding_window[layer] = config.rotates[layer] ? 0 : window;
}

}  // namespace

const Architecture kSmolLm3{.name = "SmolLM3ForCausalLM",
                            .model_type = "smollm3",
                            .default_kv_heads = 4,
                            .default_max_position_embeddings = 32768,
                            .default_rope_theta = 2e6,
                            .default_pad_token_id = 128004,
                            .ties_by_default = true,
                            .read = read_smollm3,
                            .layer = layer::kLlama};

}  // namespace spillway::architectures
