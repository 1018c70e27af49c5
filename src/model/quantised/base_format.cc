#include "model/quantised/base_format.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/json_field.h"
#include "io/safetensors.h"
#include "model/quantised/quant_state.h"
#include "model/storages/quantised.h"

namespace spillway {
namespace {

constexpr const char* kKey = "spillway_base";
constexpr const char* kFile = "adapter_model.safetensors";
constexpr std::array<DType, 3> kDTypes = {DType::kF32, DType::kBF16, DType::kF16};

WeightCoding coding_of(const JsonField& field) {
  const std::optional<WeightCoding> coding = find_coding(field.string());
  if (!coding) throw field.bad("nf4, fp4 or int8", "update Spillway");
  return *coding;
}

DType dtype_of(const JsonField& field) {
  const auto* found =
      std::find_if(kDTypes.begin(), kDTypes.end(), [&](DType dtype) { return torch_name_of(dtype) == field.string(); });
  if (found == kDTypes.end()) throw field.bad("float32, bfloat16 or float16", "update Spillway");
  return *found;
}

}  // namespace

std::map<std::string, std::string> base_format_metadata(const std::optional<LinearStorage>& base) {
  const std::optional<QuantisedFormat> format = base ? quantised_format(*base->storage) : std::nullopt;
  if (!format) return {};
  nlohmann::ordered_json json = {{"type", name_of(format->coding)},
                                 {"blocksize", format->block_size},
                                 {"double_quant", format->double_quant},
                                 {"dtype", torch_name_of(format->weight_dtype)},
                                 {"dense_modules", base->dense_modules}};
  if (base->has_experts) json["experts"] = true;
  return {{kKey, json_text(json)}};
}

std::optional<LinearStorage> read_base_format(const std::filesystem::path& adapter) {
  const std::filesystem::path path = adapter / kFile;
  const SafetensorsFile file(path);
  const auto found = file.metadata().find(kKey);
  if (found == file.metadata().end()) return {};
  const JsonDocument document(found->second, fmt::format("{}: {}", path.string(), kKey));
  const JsonField json = document.root();
  QuantisedFormat format{.coding = coding_of(json["type"]),
                         .block_size = json["blocksize"].integer(0, 1 << 20),
                         .double_quant = json["double_quant"].boolean(),
                         .weight_dtype = dtype_of(json["dtype"])};
  if (!is_four_bit_block_size(format.block_size))
    throw json["blocksize"].bad("a power of two from 32 to 4096", "update Spillway");
  LinearStorage result{.storage = quantised_storage(format)};
  result.has_experts = json["experts"].boolean_or(false);
  for (const std::string& module : json["dense_modules"].strings_or_none()) result.dense_modules.insert(module);
  return result;
}

std::string BaseChange::text(const std::filesystem::path& adapter) const {
  return fmt::format("{} was trained over a base in which {} is {}; here it is {}", adapter.string(), module, then,
                     now);
}

std::optional<BaseChange> find_base_change(const std::filesystem::path& adapter, const ParameterTable& parameters) {
  if (!std::filesystem::exists(adapter / kFile)) return {};
  const std::optional<LinearStorage> then = read_base_format(adapter);
  if (!then) return {};
  for (const Parameter& p : parameters) {
    const bool is_expert = p.role == ParameterRole::kExpert;
    if ((p.role != ParameterRole::kLinear && !is_expert) || !p.is_of_model() || p.trained) continue;
    const StoragePtr& storage = is_expert ? then->of_experts(experts_module(p.module)) : then->of(p.module);
    const std::string_view before = storage->name(), now = p.storage->name();
    if (before != now) return BaseChange{p.module, std::string(before), std::string(now)};
  }
  return {};
}

}  // namespace spillway
