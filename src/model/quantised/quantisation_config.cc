#include "model/quantised/quantisation_config.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "model/quantised/quant_state.h"

namespace spillway {
namespace {

constexpr std::string_view kMethod = "bitsandbytes";

std::string one_of(const JsonField& field, std::string_view otherwise, std::span<const std::string_view> names) {
  std::string name = field.string_or(otherwise);
  if (std::find(names.begin(), names.end(), name) == names.end())
    throw field.bad(joined_names(names), "use a model in one of these");
  return name;
}

void check_method(const JsonField& json) {
  // Folders of old versions do not name it.
  const JsonField method = json["quant_method"];
  const bool is_unnamed = method.is_null() && (json.has("load_in_4bit") || json.has("load_in_8bit"));
  if (is_unnamed || method.string_or("") == kMethod) return;
  throw method.bad("bitsandbytes or mxfp4", "use the unquantised model, or one that bitsandbytes has quantised");
}

// The dtypes of torch that bitsandbytes packs codes in or computes with.
constexpr std::array<std::string_view, 3> kFloats = {"float32", "bfloat16", "float16"};
constexpr std::array<std::string_view, 5> kStorages = {"uint8", "int8", "float16", "bfloat16", "float32"};
constexpr std::array<std::string_view, 2> kCodeTypes = {"fp4", "nf4"};

}  // namespace

QuantisationConfig parse_quantisation_config(const JsonField& json) {
  if (json["quant_method"].string_or("") == name_of(WeightCoding::kMxfp4)) return {.format = kMxfp4Format};
  check_method(json);
  const bool four = json["load_in_4bit"].boolean_or(false), eight = json["load_in_8bit"].boolean_or(false);
  if (four == eight)
    throw json.bad("either load_in_4bit or load_in_8bit to be true", "use a model that was saved with one of them");
  if (json["llm_int8_has_fp16_weight"].boolean_or(false))
    throw json["llm_int8_has_fp16_weight"].bad("false", "use the unquantised model");
  QuantisationConfig config{.load_in_4bit = four};
  config.format.coding = find_coding(one_of(json["bnb_4bit_quant_type"], "fp4", kCodeTypes)).value();
  config.format.double_quant = json["bnb_4bit_use_double_quant"].boolean_or(false);
  config.bnb_4bit_compute_dtype = one_of(json["bnb_4bit_compute_dtype"], "float32", kFloats);
  config.bnb_4bit_quant_storage = one_of(json["bnb_4bit_quant_storage"], "uint8", kStorages);
  if (!json["llm_int8_skip_modules"].is_null())
    config.llm_int8_skip_modules = json["llm_int8_skip_modules"].strings_or_none();
  config.llm_int8_threshold = json["llm_int8_threshold"].real_or(6, 0, 1e9);
  return config;
}

std::string without_quantisation(const std::string& config_json) {
  auto json = parse_json<nlohmann::ordered_json>(config_json, "config.json");
  if (json.erase("quantization_config") == 0) return config_json;
  return json_text(json, 2) + "\n";
}

nlohmann::ordered_json quantisation_config_json(const QuantisationConfig& config) {
  nlohmann::ordered_json skipped;
  if (config.llm_int8_skip_modules) skipped = *config.llm_int8_skip_modules;
  return {{"_load_in_4bit", config.load_in_4bit},
          {"_load_in_8bit", !config.load_in_4bit},
          {"bnb_4bit_compute_dtype", config.bnb_4bit_compute_dtype},
          {"bnb_4bit_quant_storage", config.bnb_4bit_quant_storage},
          {"bnb_4bit_quant_type", name_of(config.format.coding)},
          {"bnb_4bit_use_double_quant", config.format.double_quant},
          {"llm_int8_enable_fp32_cpu_offload", false},
          {"llm_int8_has_fp16_weight", false},
          {"llm_int8_skip_modules", skipped},
          {"llm_int8_threshold", config.llm_int8_threshold},
          {"load_in_4bit", config.load_in_4bit},
          {"load_in_8bit", !config.load_in_4bit},
          {"quant_method", kMethod}};
}

}  // namespace spillway
