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

std::string lora_name(std::string_view path, char factor) {
  return fmt::format("base_model.model.{}.lora_{}.weight", path, factor);
}

}  // namespace spillway
