#include "job/weight_groups.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace spillway::train {
namespace {

// Returns PyTorch's name of a weight: a factor's name has the adapter's before its last part, that of a vector at the
// end; names in files lack it.
std::string name_in_torch(const Parameter& p, bool has_adapter) {
  if (!has_adapter) return p.name;
  constexpr std::string_view kAdapter = ".default", kWeight = ".weight";
  if (p.role == ParameterRole::kMagnitude) return p.name + std::string(kAdapter) + std::string(kWeight);
  std::string name = p.name;
  if (p.is_factor()) {
    if (name.ends_with(kWeight)) name.resize(name.size() - kWeight.size());
    return name.append(kAdapter).append(kWeight);
  }
  return "base_model.model." + p.module + ".modules_to_save" + std::string(kAdapter) + std::string(kWeight);
}

struct GroupedModule {
  std::string name;
  size_t group = 0;
};

// A module that several groups name belongs to the last of them, at the position of the first.
std::vector<GroupedModule> grouped_modules(const std::vector<config::LrGroup>& groups) {
  std::vector<GroupedModule> modules;
  for (size_t i = 0; i < groups.size(); ++i) {
    for (const std::string& name : groups[i].modules) {
      const auto same = std::find_if(modules.begin(), modules.end(), [&](const auto& one) { return one.name == name; });
      if (same == modules.end()) {
        modules.push_back({name, i});
      } else {
        same->group = i;
      }
    }
  }
  return modules;
}

}  // namespace

WeightGroups loraplus_groups(const ParameterTable& parameters, double ratio) {
  WeightGroups result;
  for (const Parameter& p : parameters) {
    if (!p.trained) continue;
    const bool is_vector = p.shape.rank() == 1;
    if (p.role == ParameterRole::kLoraB || is_vector) result.rate_ratios.emplace(p.name, ratio);
    if (is_vector && p.name.find("bias") != std::string::npos) result.undecayed.insert(p.name);
  }
  return result;
}

void raise_rates_of_b(const ParameterTable& parameters, double ratio, RateRatios& ratios) {
  for (const Parameter& p : parameters)
    if (p.trained && p.role == ParameterRole::kLoraB) ratios.try_emplace(p.name, 1).first->second *= ratio;
}

WeightGroups weight_groups(const ParameterTable& parameters, const config::LrGroups& said, bool has_adapter) {
  WeightGroups result;
  const std::vector<GroupedModule> modules = grouped_modules(said.groups);
  std::vector<bool> has_weights(said.groups.size(), false);
  for (const Parameter& p : parameters) {
    if (!p.trained) continue;
    const std::string name = name_in_torch(p, has_adapter);
    const bool is_saved = name.ends_with("modules_to_save.default.weight");
    if (is_saved || name.find("embed_tokens") != std::string::npos || name.find("lm_head") != std::string::npos) {
      result.rate_ratios[p.name] = said.embedding_lr / said.learning_rate;
      result.undecayed.insert(p.name);
      continue;
    }
    if (!p.decays()) continue;
    const auto module = std::find_if(modules.begin(), modules.end(), [&](const GroupedModule& one) {
      return name.find(one.name) != std::string::npos;
    });
    if (module == modules.end()) continue;
    result.rate_ratios[p.name] = said.groups[module->group].lr / said.learning_rate;
    has_weights[module->group] = true;
  }
  for (size_t i = 0; i < said.groups.size(); ++i) {
    if (!has_weights[i])
      throw input_error(said.groups[i].where,
                        "expected modules that are a part of the names of trained weights, got {}, of which none is, "
                        "or only of those of norms, biases, embeddings, heads and other groups; correct them",
                        fmt::join(said.groups[i].modules, ", "));
  }
  return result;
}

}  // namespace spillway::train
