// Texts of config.json of decoders, small and valid but for the changes that a test makes.
#pragma once

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "model/decoder/config.h"

namespace spillway::testing {

// A small valid config.json, with changes; a null removes nothing, it is written as null.
inline std::string config_text(const nlohmann::json& changes = nlohmann::json::object(),
                               std::string_view architecture = "LlamaForCausalLM") {
  std::string type(architecture.substr(0, architecture.find("For")));
  std::transform(type.begin(), type.end(), type.begin(), [](unsigned char c) { return std::tolower(c); });
  nlohmann::json config = {{"architectures", {architecture}},
                           {"model_type", type},
                           {"vocab_size", 96},
                           {"hidden_size", 32},
                           {"intermediate_size", 48},
                           {"num_hidden_layers", 3},
                           {"num_attention_heads", 4},
                           {"num_key_value_heads", 2},
                           {"rms_norm_eps", 1e-5},
                           {"hidden_act", "silu"},
                           {"max_position_embeddings", 64}};
  config.update(changes);
  return config.dump();
}

inline DecoderConfig parse(const nlohmann::json& changes, std::string_view architecture = "LlamaForCausalLM") {
  return parse_decoder_config(config_text(changes, architecture), "config.json");
}

// Returns the window of each layer.
inline std::vector<int64_t> windows_of(const DecoderConfig& config) {
  std::vector<int64_t> windows;
  for (const DecoderLayer& layer : config.layers) windows.push_back(layer.attention.window);
  return windows;
}

// Returns which layers have a rope.
inline std::vector<bool> rotated_of(const DecoderConfig& config) {
  std::vector<bool> rotated;
  for (const DecoderLayer& layer : config.layers) rotated.push_back(layer.attention.rope.has_value());
  return rotated;
}

// Returns the error for a config, including those that can run but not be trained.
inline std::string config_error(const std::string& text) {
  try {
    const DecoderConfig config = parse_decoder_config(text, "config.json");
    return config.untrainable ? config.untrainable->what() : "";
  } catch (const InputError& error) {
    return error.what();
  }
}

inline std::string config_error(const nlohmann::json& changes, std::string_view architecture = "LlamaForCausalLM") {
  return config_error(config_text(changes, architecture));
}

}  // namespace spillway::testing
