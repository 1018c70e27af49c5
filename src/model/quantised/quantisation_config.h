// `quantization_config` of a config.json: how a folder's linear layers are kept, or are to be.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/json_field.h"
#include "tensor/quantised_format.h"

namespace spillway {

// Fields carry transformers' names (BitsAndBytesConfig) where they have one, and its defaults.
struct QuantisationConfig {
  bool load_in_4bit = true;  // false: int8
  // Of 4 bits: bnb_4bit_quant_type and bnb_4bit_use_double_quant. Each weight's quant_state counts more.
  QuantisedFormat format{.coding = WeightCoding::kFp4, .block_size = 64, .double_quant = false};
  std::string bnb_4bit_compute_dtype = "float32";
  std::string bnb_4bit_quant_storage = "uint8";                   // the dtype that files give packed codes
  std::optional<std::vector<std::string>> llm_int8_skip_modules;  // empty: those that transformers leaves by itself
  double llm_int8_threshold = 6;                                  // of activations in int8, which Spillway does not use
};

// Reads the value of `quantization_config`. Throws InputError for what is malformed, and by its name for any method but
// bitsandbytes (gptq, awq, mxfp4, hqq, ...).
[[nodiscard]] QuantisationConfig parse_quantisation_config(const JsonField& json);

// The value as transformers writes it: its keys in its order.
[[nodiscard]] nlohmann::ordered_json quantisation_config_json(const QuantisationConfig& config);

}  // namespace spillway
