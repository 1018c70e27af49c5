// SmolLM3: Llama without rotation in every fourth layer.
#include <string>
#include <vector>

#include "base/error.h"
#include "model/decoder/architecture.h"
#include "model/decoder/sliding_window.h"

namespace spillway::architectures {
namespace {

// `no_rope_layers` is 1 where a layer is rotated.
std::vector<int64_t> read_rotated(const JsonField& json, size_t layers) {
  if (json["no_rope_layers"].is_null()) {
    const int64_t interval = json["no_rope_layer_interval"].integer_or(4, 1, kMaxPositions);
    std::vector<int64_t> rotated;
    while (rotated.size() < layers) rotated.push_back((std::ssize(rotated) + 1) % interval != 0);
    return rotated;
  }
  std::vector<int64_t> rotated = json["no_rope_layers"].integers(0, 1);
  if (rotated.size() >= layers) return rotated;
  throw input_error(json.where(), "expected no_rope_layers to list num_hidden_layers = {} layers, got {}; correct it",
                    layers, rotated.size());
}

void read_smollm3(const JsonField& json, DecoderConfig& config) {
  const bool attention = json["attention_bias"].boolean_or(false);
  set_biases(config.layers, {attention, attention, json["mlp_bias"].boolean_or(false)});
  const std::vector<int64_t> rotated = read_rotated(json, config.layers.size());
  const bool has_windows = json["use_sliding_window"].boolean_or(false) && !json["sliding_window"].is_null();
  const int64_t window = has_windows ? window_of(json) : 0;
  for (size_t layer = 0; layer < config.layers.size(); ++layer) {
    if (rotated[layer] != 0) continue;
    config.layers[layer].attention.rope.reset();
    config.layers[layer].attention.window = window;
  }
  if (const std::vector<std::string> types = json["layer_types"].strings_or_none(); !types.empty())
    set_layer_windows(json, types, window, "use_sliding_window and sliding_window", config);
}

}  // namespace

const Architecture kSmolLm3{.name = "SmolLM3ForCausalLM",
                            .model_type = "smollm3",
                            .default_kv_heads = 4,
                            .default_max_position_embeddings = 32768,
                            .default_pad_token_id = 128004,
                            .ties_by_default = true,
                            .rope = {.theta = 2e6},
                            .read = read_smollm3,
                            .gguf = {.name = "smollm3",
                                     .states_vocabulary = true,
                                     .rope = {.turns_neighbours = true, .states_size = true, .nth_is_still = 4}}};

}  // namespace spillway::architectures
