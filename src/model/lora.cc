#include "model/lora.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace spillway {

double LoraOptions::scale() const {
  return alpha / (rslora ? std::sqrt(static_cast<double>(r)) : static_cast<double>(r));
}

std::vector<std::string_view> names_of_path(std::string_view path) {
  std::vector<std::string_view> result = {path};
  for (size_t dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.', dot + 1)) {
    result.push_back(path.substr(dot + 1));
  }
  return result;
}

bool is_adapted(const LoraOptions& options, std::string_view path) {
  if (options.target_modules.empty()) return path != "lm_head";
  const std::vector<std::string_view> names = names_of_path(path);
  return std::any_of(names.begin(), names.end(),
                     [&](std::string_view name) { return options.target_modules.contains(name); });
}

bool is_saved_in_full(const LoraOptions& options, std::string_view weight) {
  const std::string_view path = weight.substr(0, weight.rfind('.'));
  return std::any_of(options.modules_to_save.begin(), options.modules_to_save.end(),
                     [&](std::string_view name) { return path.ends_with(name); });
}

std::string adapter_tensor_name(std::string_view weight) {
  return weight.starts_with(kAdapterPrefix) ? std::string(weight) : fmt::format("{}{}", kAdapterPrefix, weight);
}

std::string lora_name(std::string_view path, char factor) {
  return fmt::format("{}{}.lora_{}.weight", kAdapterPrefix, path, factor);
}

}  // namespace spillway
