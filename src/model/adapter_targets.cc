#include "model/adapter_targets.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace spillway {
namespace {

// The modules of all linear layers that may have an adapter.
std::vector<std::string_view> linear_modules(const ParameterTable& parameters) {
  std::vector<std::string_view> result;
  for (const Parameter& p : parameters) {
    if (p.role == ParameterRole::kLinear && p.takes_adapter) result.push_back(p.module);
  }
  return result;
}

// Throws InputError if the names of target modules mean single experts, which transformers 5 has in tensors of all.
void refuse_experts(const ParameterTable& parameters, const LoraOptions& lora, std::string_view where) {
  for (const Parameter& p : parameters) {
    if (!p.tensor.has_old_name) continue;
    for (const std::string_view name : names_of_path(p.module)) {
      if (!lora.target_modules.contains(name)) continue;
      throw input_error(where, "expected linear layers, and experts by the name of their tensor, {}, got {}; {}",
                        p.tensor.name, quote(name), "convert the adapter with PEFT 0.21, or name others");
    }
  }
}

// The tensors of mixtures that `lora` adapts, each once, in the order of the model.
std::vector<const MixtureTensor*> adapted_tensors(const ParameterTable& parameters, const LoraOptions& lora) {
  std::vector<const MixtureTensor*> result;
  std::set<std::string_view> known;
  for (const Parameter& p : parameters) {
    const std::string_view name = p.tensor.name;
    if (!name.empty() && is_adapted_tensor(lora, name) && known.insert(name).second) result.push_back(&p.tensor);
  }
  return result;
}

// The modules of the linear layers that `lora` adapts.
std::vector<std::string> linear_targets(const ParameterTable& parameters, const LoraOptions& lora) {
  std::vector<std::string> result;
  for (const std::string_view module : linear_modules(parameters))
    if (is_adapted(lora, module)) result.emplace_back(module);
  return result;
}

// Returns the last parts of the paths of the layers that can have an adapter, each once, in the order of the model. A
// number at the end of a path (`to_out.0`) is kept with the part before it.
std::vector<std::string> last_names(const ParameterTable& parameters) {
  std::vector<std::string> names;
  for (const std::string_view module : linear_modules(parameters)) {
    size_t begin = module.rfind('.') + 1;
    const bool is_number = module.find_first_not_of("0123456789", begin) == std::string_view::npos;
    if (is_number && begin > 1) begin = module.rfind('.', begin - 2) + 1;
    std::string name(module.substr(begin));
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
  }
  return names;
}

// Returns true if `target` names linear layers that take no adapter.
bool names_refused(const ParameterTable& parameters, std::string_view target) {
  return std::any_of(parameters.begin(), parameters.end(), [&](const Parameter& p) {
    if (p.role != ParameterRole::kLinear || p.takes_adapter) return false;
    const std::vector<std::string_view> names = names_of_path(p.module);
    return std::find(names.begin(), names.end(), target) != names.end();
  });
}

}  // namespace

std::vector<std::string> lora_targets(const ParameterTable& parameters, const LoraOptions& lora,
                                      std::string_view where) {
  refuse_experts(parameters, lora, where);
  std::set<std::string_view> known;
  for (const std::string_view module : linear_modules(parameters))
    for (const std::string_view name : names_of_path(module)) known.insert(name);
  for (const std::string& target : lora.target_modules) {
    if (known.contains(target)) continue;
    if (names_refused(parameters, target))
      throw input_error(where, "expected layers for which PEFT takes an adapter ({}), got {}, {}; leave it out",
                        fmt::join(last_names(parameters), ", "), quote(target),
                        "which it refuses or passes over in models of this type");
    throw input_error(where, "expected linear layers of the blocks ({}), got {}; name layers that this model has",
                      fmt::join(last_names(parameters), ", "), quote(target));
  }
  std::vector<std::string> result = linear_targets(parameters, lora);
  for (const MixtureTensor* tensor : adapted_tensors(parameters, lora)) result.push_back(tensor->name);
  return result;
}

std::set<std::string, std::less<>> name_tensors(const ParameterTable& parameters, LoraOptions& lora,
                                                std::string_view where) {
  std::map<std::string_view, std::set<std::string_view>> old_names;  // of each tensor's last name
  for (const Parameter& p : parameters) {
    if (!p.tensor.has_old_name) continue;
    const bool is_router = p.role == ParameterRole::kRouter;
    const std::string_view tensor = p.tensor.name;
    old_names[is_router ? names_of_path(tensor).rbegin()[1] : last_name(tensor)].insert(last_name(p.module));
  }
  if (old_names.empty()) return {};
  if (lora.target_modules.empty()) {
    if (!lora.target_parameters.empty()) return {};
    for (const std::string_view module : linear_modules(parameters))
      if (module != "lm_head") lora.target_modules.emplace(last_name(module));
    for (const auto& [tensor, names] : old_names) lora.target_modules.insert(names.begin(), names.end());
  }
  std::set<std::string, std::less<>> doubled;
  for (const auto& [tensor, tensor_names] : old_names) {
    const auto& names = tensor_names;  // which lambdas may capture
    std::set<std::string_view> found;
    std::erase_if(lora.target_modules, [&](const std::string& target) {
      const auto name = names.find(last_name(target));
      if (name != names.end()) found.insert(*name);
      return name != names.end();
    });
    if (found.empty()) continue;
    if (found.size() < names.size())
      throw input_error(where, "expected {} together, which are one tensor of all experts, got {} alone; name both",
                        fmt::join(names, " and "), *found.begin());
    lora.target_parameters.emplace(tensor);
    if (names.size() == 1) continue;
    for (const Parameter& p : parameters)
      if (last_name(p.tensor.name) == tensor) doubled.insert(p.tensor.name);
  }
  return doubled;
}

void check_target_tensors(const ParameterTable& parameters, const LoraOptions& lora, std::string_view where) {
  if (lora.target_parameters.empty()) return;
  std::set<std::string_view> known;
  for (const Parameter& p : parameters)
    for (const std::string_view name : names_of_path(p.tensor.name)) known.insert(name);
  for (const std::string& target : lora.target_parameters) {
    if (!target.empty() && known.contains(target)) continue;
    throw input_error(where, "expected tensors of experts or routers ({}), got {}; name some that this model has",
                      "mlp.experts.gate_up_proj, mlp.experts.down_proj, mlp.gate.weight", quote(target));
  }
  const bool is_plain = lora.dropout == 0 && !lora.dora && !lora.starts_from_weights();
  if (!is_plain)
    throw input_error(where, "expected no {} beside factors of experts and routers, as in PEFT, got one; remove it",
                      lora.dropout != 0 ? "dropout of the adapter"
                      : lora.dora       ? "DoRA"
                                        : "start from the weights");
  for (const MixtureTensor* tensor : adapted_tensors(parameters, lora)) {
    const int64_t most = std::min(tensor->shape[0], tensor->shape[1]), rank = lora.rank_of(tensor->name);
    if (rank <= most) continue;
    throw input_error(where, "expected a rank of at most {}, the smaller side of {}, got {}; choose a smaller one",
                      most, tensor->name, rank);
  }
}

std::vector<std::string> saved_weights(const ParameterTable& parameters, const LoraOptions& lora,
                                       std::string_view where) {
  const auto saved_by = [&](const LoraOptions& options) {
    std::vector<std::string> names;
    for (const Parameter& p : parameters) {
      const bool may_train = p.is_written() && p.role != ParameterRole::kBuffer;
      if (may_train && is_saved_in_full(options, p.name)) names.push_back(p.name);
    }
    return names;
  };
  for (const std::string& name : lora.modules_to_save) {
    if (!name.empty() && !saved_by({.modules_to_save = {name}}).empty()) continue;
    throw input_error(where,
                      "expected layers of the model (embed_tokens, lm_head, norm, ...), got {}; correct the name",
                      quote(name));
  }
  for (const Parameter& p : parameters) {
    if (!p.is_of_mixture() || !is_saved_in_full(lora, p.name)) continue;
    throw input_error(where,
                      "expected layers outside of mixtures, whose weights are not yet trained beside LoRA, got {}; {}",
                      quote(p.module), "name others");
  }
  for (const std::string& module : lora_targets(parameters, lora, where)) {
    if (!is_saved_in_full(lora, module + ".weight")) continue;
    throw input_error(where, "expected layers without an adapter, got {}, which has one; train it in one way",
                      quote(module));
  }
  return saved_by(lora);
}

std::set<std::string> target_names(const ParameterTable& parameters, const LoraOptions& lora) {
  const std::vector<std::string> targets = linear_targets(parameters, lora);
  std::map<std::string_view, int64_t> left;  // layers of a kind that are not adapted
  std::set<std::string> full, brief;
  for (const std::string_view module : linear_modules(parameters)) {
    if (is_adapted({.layers_to_transform = lora.layers_to_transform, .layers_pattern = lora.layers_pattern}, module))
      ++left[last_name(module)];
  }
  for (const std::string& module : targets) {
    full.insert(module);
    brief.emplace(last_name(module));
    --left[last_name(module)];
  }
  // PEFT would adapt layers of towers that are called alike.
  const bool says_enough = !parameters.has_other_parts() &&
                           std::all_of(brief.begin(), brief.end(), [&](const auto& kind) { return left[kind] == 0; });
  return says_enough ? brief : full;
}

}  // namespace spillway
