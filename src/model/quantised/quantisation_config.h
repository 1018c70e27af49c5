// `quantization_config` of a config.json: the quantisation of a folder's linear layers, present or to be made, in MXFP4
// of its experts, in FP8 of both.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/json_field.h"
#include "tensor/quantised_format.h"

namespace spillway {

// Fields have transformers' names (BitsAndBytesConfig) where these exist, and its defaults. Of MXFP4 and FP8 the format
// is read: the files say which weights have codes.
struct QuantisationConfig {
  bool load_in_4bit = true;  // false: int8
  // For 4 bits: bnb_4bit_quant_type and bnb_4bit_use_double_quant. Each weight's quant_state takes precedence.
  QuantisedFormat format{.coding = WeightCoding::kFp4, .block_size = 64, .double_quant = false};
  std::string bnb_4bit_compute_dtype = "float32";
  std::string bnb_4bit_quant_storage = "uint8";                   // the dtype that files give packed codes
  std::optional<std::vector<std::string>> llm_int8_skip_modules;  // empty: those that transformers leaves by itself
  double llm_int8_threshold = 6;                                  // of activations in int8, which Spillway does not use
  // Of FP8, for a folder without its weights: modules without codes (`modules_to_not_convert`, `ignore`).
  std::vector<std::string> dense_modules = {};
};

// Reads the value of `quantization_config`. Throws InputError for a malformed value, and for any method other than
// bitsandbytes, mxfp4, fp8 and compressed-tensors in its format float-quantized, by its name (gptq, awq, hqq, ...).
[[nodiscard]] QuantisationConfig parse_quantisation_config(const JsonField& json);

// Returns the text of a config.json without `quantization_config`, which a dense model does not have.
[[nodiscard]] std::string without_quantisation(const std::string& config_json);

// Returns the value as transformers writes it, with the same keys in the same order.
[[nodiscard]] nlohmann::ordered_json quantisation_config_json(const QuantisationConfig& config);

}  // namespace spillway
