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

constexpr const char* kUnquantised = "use the unquantised model, or one that bitsandbytes has quantised";

void check_method(const JsonField& json) {
  // Folders of old versions do not name it.
  const JsonField method = json["quant_method"];
  const bool is_unnamed = method.is_null() && (json.has("load_in_4bit") || json.has("load_in_8bit"));
  if (is_unnamed || method.string_or("") == kMethod) return;
  throw method.bad("bitsandbytes, mxfp4, fp8 or compressed-tensors", kUnquantised);
}

constexpr int64_t kMaxBlock = int64_t{1} << 20;

QuantisedFormat blocks_of(const JsonField& field) {
  const std::vector<int64_t> block = field.integers(1, kMaxBlock);
  if (block.size() != 2) throw field.bad("the rows and columns of a block", "correct the list");
  return fp8_format(block[0], block[1]);
}

std::string_view name_of_list(const JsonField& json, std::string_view name, std::string_view other) {
  return json[name].is_null() ? other : name;
}

// FineGrainedFP8Config. Scales of inputs (activation_scheme: static) are for products of codes.
QuantisationConfig parse_fp8(const JsonField& json) {
  constexpr std::array<std::string_view, 2> kSchemes = {"dynamic", "static"};
  constexpr std::array<std::string_view, 1> kExpertTypes = {"fp8"};
  (void)one_of(json["activation_scheme"], "dynamic", kSchemes);
  (void)one_of(json["expert_dtype"], "fp8", kExpertTypes);
  const JsonField block = json["weight_block_size"];
  const QuantisedFormat missing = json.has("weight_block_size") ? fp8_format(1, 0) : fp8_format(128, 128);
  return {.format = block.is_null() ? missing : blocks_of(block),
          .dense_modules = json[name_of_list(json, "modules_to_not_convert", "ignored_layers")].strings_or_none()};
}

// The weights of a group of compressed-tensors' config.
QuantisedFormat fp8_group(const JsonField& weights) {
  constexpr std::array<std::string_view, 1> kTypes = {"float"};
  constexpr std::array<std::string_view, 3> kStrategies = {"tensor", "channel", "block"};
  (void)one_of(weights["type"], "", kTypes);
  (void)weights["num_bits"].integer(8, 8);
  if (!weights["symmetric"].boolean_or(true)) throw weights["symmetric"].bad("true", "quantise without zero points");
  const bool has_blocks = one_of(weights["strategy"], "", kStrategies) == kStrategies[2];
  return has_blocks ? blocks_of(weights["block_structure"]) : fp8_format(1, 0);
}

QuantisationConfig parse_compressed_tensors(const JsonField& json) {
  if (json["format"].string_or("") != "float-quantized") {
    throw json["format"].bad("float-quantized of quant_method compressed-tensors", kUnquantised);
  }
  // Weights that are rotated or thinned out are others than their codes say.
  if (json["transform_config"].is_in_use()) throw json["transform_config"].bad("none", kUnquantised);
  if (json["sparsity_config"].object_or_empty()["format"].string_or("dense") != "dense")
    throw json["sparsity_config"]["format"].bad("dense", kUnquantised);
  std::optional<QuantisedFormat> format;
  for (const auto& [name, group] : json["config_groups"].members()) {
    const QuantisedFormat own = fp8_group(group["weights"]);
    if (format && *format != own) throw group.bad("all groups in blocks of one size", "quantise all layers alike");
    format = own;
  }
  if (!format) throw json["config_groups"].bad("a group of weights", "download the file again");
  return {.format = *format, .dense_modules = json["ignore"].strings_or_none()};
}

// The dtypes of torch that bitsandbytes packs codes in or computes with.
constexpr std::array<std::string_view, 3> kFloats = {"float32", "bfloat16", "float16"};
constexpr std::array<std::string_view, 5> kStorages = {"uint8", "int8", "float16", "bfloat16", "float32"};
constexpr std::array<std::string_view, 2> kCodeTypes = {"fp4", "nf4"};

}  // namespace

QuantisationConfig parse_quantisation_config(const JsonField& json) {
  const std::string fp_method = json["quant_method"].string_or("");
  if (fp_method == name_of(WeightCoding::kMxfp4)) return {.format = kMxfp4Format};
  if (fp_method == name_of(WeightCoding::kFp8)) return parse_fp8(json);
  if (fp_method == "compressed-tensors") return parse_compressed_tensors(json);
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
