#include "model/config_dtype.h"

#include "model/quantised/quant_state.h"

namespace spillway {
namespace {

constexpr const char* kDtypeKeys[] = {"dtype", "torch_dtype"};

void replace_dtypes(nlohmann::ordered_json& config, DType dtype) {
  for (const char* key : kDtypeKeys)
    if (config.contains(key)) config[key] = torch_name_of(dtype);
  for (const char* part : {"text_config", "vision_config", "audio_config"})
    if (config.contains(part) && config[part].is_object()) replace_dtypes(config[part], dtype);
}

}  // namespace

void set_config_dtype(nlohmann::ordered_json& config, DType dtype) {
  if (!config.contains("torch_dtype")) config["dtype"] = torch_name_of(dtype);
  replace_dtypes(config, dtype);
}

}  // namespace spillway
