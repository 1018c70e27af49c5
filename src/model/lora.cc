#include "model/lora.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace spillway {

double LoraOptions::scale() const {
  return alpha / (rslora ? std::sqrt(static_cast<double>(r)) : static_cast<double>(r));
}

bool is_adapted(const LoraOptions& options, std::string_view path) {
  if (options.target_modules.empty()) return path != "lm_head";
  return std::any_of(options.target_modules.begin(), options.target_modules.end(),
                     [&](const std::string& name) { return path == name || path.ends_with("." + name); });
}

std::string lora_name(std::string_view path, char factor) {
  return fmt::format("base_model.model.{}.lora_{}.weight", path, factor);
}

}  // namespace spillway
