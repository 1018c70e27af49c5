#include "model/lora.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace spillway {

int64_t LoraOptions::rank_of(std::string_view module) const {
  const auto found = ranks.find(module);
  return found == ranks.end() ? r : found->second;
}

double LoraOptions::alpha_of(std::string_view module) const {
  const auto found = alphas.find(module);
  return found == alphas.end() ? alpha : found->second;
}

double LoraOptions::scale_of(std::string_view module) const {
  const auto rank = static_cast<double>(rank_of(module));
  return alpha_of(module) / (rslora ? std::sqrt(rank) : rank);
}

LoraOptions LoraOptions::beside_unchanged_base() const {
  if (!changes_base()) return *this;
  // The scales stay: alpha / r, or alpha / sqrt(r).
  const double more = rslora ? std::sqrt(2.0) : 2.0;
  LoraOptions plain = *this;
  plain.start = LoraStart::kUniform;
  plain.start_iterations.reset();
  plain.r *= 2;
  plain.alpha *= more;
  for (auto& [module, rank] : plain.ranks) rank *= 2;
  for (auto& [module, module_alpha] : plain.alphas) module_alpha *= more;
  return plain;
}

std::vector<std::string_view> names_of_path(std::string_view path) {
  std::vector<std::string_view> result = {path};
  for (size_t dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.', dot + 1)) {
    result.push_back(path.substr(dot + 1));
  }
  return result;
}

std::optional<int64_t> layer_of(std::string_view path, std::span<const std::string> names) {
  std::vector<std::string_view> parts;
  for (const std::string_view rest : names_of_path(path)) parts.push_back(rest.substr(0, rest.find('.')));
  // A number behind a list's name that is not the first of the path, and before the module's own: the last one.
  for (size_t i = parts.size() - 1; i-- > 2;) {
    int64_t layer = 0;
    const auto [end, error] = std::from_chars(parts[i].data(), parts[i].data() + parts[i].size(), layer);
    if (error != std::errc() || end != parts[i].data() + parts[i].size()) continue;
    if (names.empty() || std::find(names.begin(), names.end(), parts[i - 1]) != names.end()) return layer;
  }
  return {};
}

namespace {

// Returns true if one of the names by which PEFT would match `path` is among `targets`.
bool is_named(const std::set<std::string, std::less<>>& targets, std::string_view path) {
  const std::vector<std::string_view> names = names_of_path(path);
  return std::any_of(names.begin(), names.end(), [&](std::string_view name) { return targets.contains(name); });
}

}  // namespace

bool is_adapted(const LoraOptions& options, std::string_view path) {
  if (!options.layers_to_transform.empty()) {
    const std::optional<int64_t> layer = layer_of(path, options.layers_pattern);
    if (!layer || !options.layers_to_transform.contains(*layer)) return false;
  }
  if (options.target_modules.empty()) return path != "lm_head" && options.target_parameters.empty();
  return is_named(options.target_modules, path);
}

bool is_adapted_tensor(const LoraOptions& options, std::string_view path) {
  return is_named(options.target_parameters, path);
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

std::string tensor_factor_name(const LoraOptions& options, std::string_view path, char factor) {
  std::string module(path.substr(0, path.rfind('.')));
  const bool is_first = path.ends_with(".gate_up_proj") || path.ends_with(".up_proj");
  const bool is_inner = is_first && is_adapted_tensor(options, module + ".down_proj");
  return lora_name(is_inner ? module + ".base_layer" : module, factor);
}

std::string magnitude_name(std::string_view path) {
  return fmt::format("{}{}.lora_magnitude_vector", kAdapterPrefix, path);
}

std::string start_name(std::string_view path, char factor) {
  return fmt::format("start.{}.lora_{}.weight", path, factor);
}

std::string row_squares_name(std::string_view weight) { return fmt::format("{}.row_squares", weight); }

}  // namespace spillway
