#include "model/quantised/quant_state.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "model/quantised/quantisation_config.h"

using namespace spillway;

namespace {

// As bitsandbytes 0.50 wrote them.
constexpr std::string_view kNested =
    R"({"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [44, 40], "nested_blocksize": 256, )"
    R"("nested_dtype": "float32", "nested_offset": 0.5348075032234192})";
constexpr std::string_view kPlain = R"({"quant_type": "fp4", "blocksize": 64, "dtype": "bfloat16", "shape": [44, 40]})";
constexpr std::string_view kConfig =
    R"({"_load_in_4bit": true, "_load_in_8bit": false, "bnb_4bit_compute_dtype": "bfloat16", )"
    R"("bnb_4bit_quant_storage": "uint8", "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": true, )"
    R"("llm_int8_enable_fp32_cpu_offload": false, "llm_int8_has_fp16_weight": false, "llm_int8_skip_modules": null, )"
    R"("llm_int8_threshold": 6.0, "load_in_4bit": true, "load_in_8bit": false, "quant_method": "bitsandbytes"})";

std::string changed(std::string_view text, std::string_view key, const nlohmann::json& value) {
  nlohmann::json json = nlohmann::json::parse(text);
  json[key] = value;
  return json.dump();
}
std::string without(std::string_view text, std::string_view key) {
  nlohmann::json json = nlohmann::json::parse(text);
  json.erase(std::string(key));
  return json.dump();
}

template <typename Read>
std::string state_error(const Read& read) {
  try {
    read();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}
std::string state_error(const std::string& text) {
  return state_error([&] { (void)parse_quant_state(text, "'q_proj.weight.quant_state'"); });
}
QuantisationConfig config_of(const std::string& text) {
  const JsonDocument document(text, "config.json");
  return parse_quantisation_config(document.root());
}
std::string quantisation_error(const std::string& text) {
  return state_error([&] { (void)config_of(text); });
}

}  // namespace

TEST_CASE("a quant_state is read and written as bitsandbytes writes it") {
  const QuantState nested = parse_quant_state(kNested, "x"), plain = parse_quant_state(kPlain, "x");
  CHECK(nested.format == QuantisedFormat{WeightCoding::kNf4, 64, true});
  CHECK(nested.format.weight_dtype == DType::kBF16);
  CHECK(nested.shape == Shape{44, 40});
  CHECK(nested.nested_offset == 0.5348075032234192F);
  CHECK(plain.format == QuantisedFormat{WeightCoding::kFp4, 64, false});
  CHECK(quant_state_json(nested) == kNested);
  CHECK(quant_state_json(plain) == kPlain);
}

TEST_CASE("offsets are written as Python writes them") {
  QuantState state = parse_quant_state(kNested, "x");
  // repr() of the f32 as a double.
  for (const auto& [offset, text] : {std::pair{0.0F, "0.0}"},
                                     {1.0F, "1.0}"},
                                     {1e-5F, "9.999999747378752e-06}"},
                                     {0.000123F, "0.0001230000052601099}"},
                                     {65504.0F, "65504.0}"}}) {
    state.nested_offset = offset;
    CAPTURE(text);
    CHECK(quant_state_json(state).ends_with(std::string(": ") + text));
    CHECK(parse_quant_state(quant_state_json(state), "x").nested_offset == offset);
  }
}

TEST_CASE("a quant_state that lies is refused with its tensor's name") {
  const std::string nested(kNested);
  for (const std::string& text : {std::string("{"),
                                  std::string("[]"),
                                  std::string(),
                                  changed(kNested, "quant_type", "nf5"),
                                  changed(kNested, "quant_type", 4),
                                  changed(kNested, "blocksize", 63),
                                  changed(kNested, "blocksize", 16),
                                  changed(kNested, "blocksize", 8192),
                                  changed(kNested, "blocksize", -64),
                                  changed(kNested, "blocksize", "64"),
                                  changed(kNested, "dtype", "float8"),
                                  changed(kNested, "shape", nlohmann::json::array({1760})),
                                  changed(kNested, "shape", nlohmann::json::array({44, -40})),
                                  changed(kNested, "shape", 1760),
                                  changed(kNested, "shape", nlohmann::json::array({44, 40, 1})),
                                  changed(kNested, "nested_blocksize", 128),
                                  changed(kNested, "nested_dtype", "float16"),
                                  changed(kNested, "nested_offset", "1"),
                                  changed(kNested, "nested_offset", 1e300),
                                  without(kNested, "nested_offset"),
                                  without(kNested, "nested_dtype"),
                                  without(kNested, "shape"),
                                  without(kNested, "quant_type"),
                                  without(kNested, "dtype"),
                                  nested.substr(0, nested.size() - 20) + "NaN}"}) {
    CAPTURE(text);
    CHECK(state_error(text).find("q_proj.weight.quant_state") != std::string::npos);
  }
}

TEST_CASE("a quantization_config is read and written as transformers writes it") {
  const QuantisationConfig config = config_of(std::string(kConfig));
  CHECK(config.load_in_4bit);
  CHECK(config.format == QuantisedFormat{WeightCoding::kNf4, 64, true});
  CHECK(config.bnb_4bit_compute_dtype == "bfloat16");
  CHECK_FALSE(config.llm_int8_skip_modules);
  CHECK(quantisation_config_json(config) == nlohmann::ordered_json::parse(kConfig));
  CHECK(quantisation_config_json(config).dump() == nlohmann::ordered_json::parse(kConfig).dump());
}

TEST_CASE("what a quantization_config leaves out has transformers' defaults") {
  const QuantisationConfig old = config_of(R"({"load_in_8bit": true, "llm_int8_skip_modules": ["lm_head"]})");
  CHECK_FALSE(old.load_in_4bit);
  CHECK(old.llm_int8_skip_modules == std::vector<std::string>{"lm_head"});
  const QuantisationConfig four = config_of(R"({"load_in_4bit": true, "quant_method": "bitsandbytes"})");
  CHECK(four.format == QuantisedFormat{WeightCoding::kFp4, 64, false});
  CHECK(four.llm_int8_threshold == 6);
}

TEST_CASE("the blocks of FP8 are read as the hub's folders say them") {
  const auto format_of = [](const char* text) { return config_of(text).format; };
  // DeepSeek-V3, MiniMax-M2, Qwen3-8B-FP8 and Ministral 3.
  CHECK(format_of(R"({"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
                      "weight_block_size": [128, 128]})") == fp8_format(128, 128));
  const QuantisationConfig minimax = config_of(
      R"({"activation_scheme": "dynamic", "fmt": "float8_e4m3fn", "quant_method": "fp8", "weight_block_size": [64, 32],
          "ignored_layers": ["gate", "lm_head"]})");
  CHECK(minimax.format == fp8_format(64, 32));
  CHECK(minimax.dense_modules == std::vector<std::string>{"gate", "lm_head"});
  CHECK(format_of(R"({"quant_method": "fp8", "modules_to_not_convert": ["lm_head"]})") == fp8_format(128, 128));
  CHECK(format_of(R"({"activation_scheme": "static", "dequantize": false, "quant_method": "fp8",
                      "weight_block_size": null})") == fp8_format(1, 0));
  // GLM-4.5-FP8.
  constexpr std::string_view kGlm =
      R"({"config_groups": {"group_0": {"input_activations": {"dynamic": true, "num_bits": 8, "strategy": "token",
          "type": "float"}, "output_activations": null, "targets": ["Linear"], "weights": {"dynamic": false, "num_bits": 8,
          "strategy": "channel", "symmetric": true, "type": "float"}}}, "format": "float-quantized",
          "ignore": ["lm_head", "model.layers.0.mlp.gate"], "kv_cache_scheme": null,
          "quant_method": "compressed-tensors", "quantization_status": "compressed"})";
  const QuantisationConfig glm = config_of(std::string(kGlm));
  CHECK(glm.format == fp8_format(1, 0));
  CHECK(glm.dense_modules == std::vector<std::string>{"lm_head", "model.layers.0.mlp.gate"});
  const auto weights = [&](const char* key, const nlohmann::json& value) {
    nlohmann::json json = nlohmann::json::parse(kGlm);
    json["config_groups"]["group_0"]["weights"][key] = value;
    return json.dump();
  };
  nlohmann::json blocks = nlohmann::json::parse(weights("strategy", "block"));
  blocks["config_groups"]["group_0"]["weights"]["block_structure"] = {128, 64};
  CHECK(format_of(blocks.dump().c_str()) == fp8_format(128, 64));
  CHECK(quantisation_error(weights("num_bits", 4)).find("num_bits") != std::string::npos);
  CHECK(quantisation_error(weights("type", "int")).find("int") != std::string::npos);
  CHECK(quantisation_error(weights("strategy", "group")).find("group") != std::string::npos);
  CHECK(quantisation_error(weights("strategy", "block")).find("block_structure") != std::string::npos);
  CHECK(quantisation_error(changed(kGlm, "format", "pack-quantized")).find("pack-quantized") != std::string::npos);
  CHECK(quantisation_error(changed(kGlm, "config_groups", nlohmann::json::object())) != "");
  CHECK(quantisation_error(weights("symmetric", false)).find("symmetric") != std::string::npos);
  CHECK(
      quantisation_error(changed(kGlm, "transform_config", {{"config_groups", {{"u", 1}}}})).find("transform_config") !=
      std::string::npos);
  CHECK(quantisation_error(changed(kGlm, "sparsity_config", {{"format", "sparse-24-bitmask"}})).find("sparse-24") !=
        std::string::npos);
  CHECK(format_of(changed(kGlm, "sparsity_config", {{"format", "dense"}}).c_str()) == fp8_format(1, 0));
  CHECK(quantisation_error(R"({"quant_method": "fp8", "weight_block_size": [128]})") != "");
  CHECK(quantisation_error(R"({"quant_method": "fp8", "weight_block_size": [0, 128]})") != "");
  CHECK(quantisation_error(R"({"quant_method": "fp8", "activation_scheme": "none"})").find("none") !=
        std::string::npos);
  CHECK(quantisation_error(R"({"quant_method": "fp8", "expert_dtype": "fp4"})").find("fp4") != std::string::npos);
}

TEST_CASE("other methods are refused by name, and so is what contradicts itself") {
  for (const char* method : {"gptq", "awq", "hqq", "compressed-tensors", "fbgemm_fp8"})
    CHECK(quantisation_error(changed(kConfig, "quant_method", method)).find(method) != std::string::npos);
  CHECK(quantisation_error(R"({"bits": 4})") != "");
  CHECK(quantisation_error(changed(kConfig, "load_in_8bit", true)) != "");
  CHECK(quantisation_error(changed(kConfig, "load_in_4bit", false)) != "");
  CHECK(quantisation_error(changed(kConfig, "bnb_4bit_quant_type", "nf3")).find("nf3") != std::string::npos);
  CHECK(quantisation_error(changed(kConfig, "bnb_4bit_use_double_quant", "yes")) != "");
  CHECK(quantisation_error(changed(kConfig, "llm_int8_has_fp16_weight", true)) != "");
  CHECK(quantisation_error(changed(kConfig, "llm_int8_skip_modules", "lm_head")) != "");
  CHECK(quantisation_error(changed(kConfig, "bnb_4bit_quant_storage", "int3")).find("int3") != std::string::npos);
}
