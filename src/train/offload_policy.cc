#include "train/offload_policy.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"

namespace spillway::train {
namespace {

// Everything in a block but its output: what can be recomputed.
constexpr SavedGroup kInner[] = {SavedGroup::kAttention, SavedGroup::kProduct, SavedGroup::kElementwise};

using Choice = std::optional<Treatment>;

void fix_inner(Policy& policy, Choice choice) {
  for (const SavedGroup group : kInner) policy[group] = choice;
}

// What checkpointing alone says. `open` is what a choice that nobody makes comes to.
void fix_checkpointing(Policy& policy, const config::Config& config, Choice open) {
  policy.saved.fill(open);
  if (config.gradient_checkpointing == config::Checkpointing::kOn) fix_inner(policy, Treatment::kRecompute);
  if (config.gradient_checkpointing == config::Checkpointing::kOff) fix_inner(policy, Treatment::kKeep);
}

void fix_offloading(Policy& policy, const config::Config& config) {
  if (!config.activation_offloading) return;
  const config::ActivationOffloading mode = *config.activation_offloading;
  if (mode == config::ActivationOffloading::kOff) {
    policy[SavedGroup::kBoundary] = Treatment::kKeep;
    policy.may_move_saved = false;
    return;
  }
  const Treatment away = mode == config::ActivationOffloading::kDisk ? Treatment::kDisk : Treatment::kHost;
  policy[SavedGroup::kBoundary] = away;
  policy.synchronous = mode == config::ActivationOffloading::kLegacy;
  if (mode == config::ActivationOffloading::kHiddenStates ||
      config.gradient_checkpointing == config::Checkpointing::kOn)
    return;
  // Without checkpointing everything moves, unless the plan may find something better for a whole model's activations.
  const bool plan_decides = config.memory.plan == config::PlanMode::kAuto && config.adapter == config::Adapter::kNone &&
                            config.gradient_checkpointing == config::Checkpointing::kAuto;
  if (!plan_decides) fix_inner(policy, away);
}

SavedGroup group_of(config::SavedOutputs outputs) {
  return outputs == config::SavedOutputs::kAttention ? SavedGroup::kAttention : SavedGroup::kProduct;
}

void fix_selective(Policy& policy, const config::Config& config) {
  const config::SelectiveCheckpointing& selective = config.selective_checkpointing;
  if (!selective.enabled) return;
  Treatment saved = Treatment::kKeep;
  if (selective.offload) {
    saved = config.activation_offloading == config::ActivationOffloading::kDisk ? Treatment::kDisk : Treatment::kHost;
  }
  for (const config::SavedOutputs outputs : selective.save) policy[group_of(outputs)] = saved;
}

// A window that no row is longer than hides nothing.
config::LayerType type_of(const config::Config& config, int64_t window) {
  return window > 0 && window < config.sequence_len ? config::LayerType::kSlidingAttention
                                                    : config::LayerType::kFullAttention;
}

// What is not saved is recomputed.
void fix_recomputed_layers(Policy& policy, const config::Config& config, const ModelConfig& model) {
  const config::SelectiveCheckpointing& selective = config.selective_checkpointing;
  if (!selective.enabled || selective.save_sliding_window) return;
  const std::vector<config::LayerType>& types = selective.recompute_layer_types;
  for (size_t layer = 0; layer < model.sliding_window.size(); ++layer) {
    const config::LayerType type = type_of(config, model.sliding_window[layer]);
    if (std::find(types.begin(), types.end(), type) == types.end()) continue;
    SavedPolicy saved = policy.saved;
    for (const config::SavedOutputs outputs : selective.save)
      saved[static_cast<size_t>(group_of(outputs))] = Treatment::kRecompute;
    policy.saved_in.emplace(static_cast<BlockId>(layer), saved);
  }
}

// `left_out` stands for a key that is not given.
std::optional<Tier> home_of(std::optional<config::Offload> key, std::optional<Tier> left_out) {
  if (!key) return left_out;
  switch (*key) {
    case config::Offload::kNone:
      return Tier::kDevice;
    case config::Offload::kHost:
      return Tier::kHost;
    case config::Offload::kDisk:
      return Tier::kDisk;
    case config::Offload::kAuto:
      return {};
  }
  report_bug(__FILE__, __LINE__, "offload", "unknown");
}

std::optional<config::Offload> as_offload(std::optional<config::LayerOffloading> key) {
  if (!key) return {};
  return *key == config::LayerOffloading::kOff    ? config::Offload::kNone
         : *key == config::LayerOffloading::kHost ? config::Offload::kHost
                                                  : config::Offload::kDisk;
}

bool uses(const Policy& policy, Tier tier) {
  const Treatment away = tier == Tier::kHost ? Treatment::kHost : Treatment::kDisk;
  return std::find(policy.saved.begin(), policy.saved.end(), away) != policy.saved.end() ||
         policy.frozen_weights == tier || policy.trainable_weights == tier || policy.outer_weights == tier ||
         policy.gradients == tier || policy.optimizer_state == tier;
}

// Where device and host are the same RAM: what one of them leaves to the other.
int64_t left_by(int64_t other, std::string_view other_key, int64_t ram) {
  const int64_t left = usable_bytes(ram) - other;
  if (left > 0) return left;
  throw input_error(other_key,
                    "expected less than {}, as device and host memory are the same RAM here, got {}; lower it",
                    format_bytes(usable_bytes(ram)), format_bytes(other));
}

void split_ram(Budget& budget, const config::MemoryConfig& memory, int64_t ram) {
  const bool device_given = !memory.device.empty(), host_given = !memory.host.empty();
  if (!device_given && !host_given) {
    budget.device = budget.host = usable_bytes(ram) / 2;
  } else if (!device_given) {
    budget.device = left_by(*budget.host, memory.host_key, ram);
  } else if (!host_given) {
    budget.host = left_by(*budget.device, memory.device_key, ram);
  } else if (*budget.host > ram || *budget.device > ram - *budget.host) {
    throw input_error(memory.host_key,
                      "expected at most {} together with {}, as both are RAM here, got {} and {}; lower one",
                      format_bytes(ram), memory.device_key, format_bytes(*budget.device), format_bytes(*budget.host));
  }
}

// No budget can be met that is more than all there is. What is free now may be less, and may change.
void check_total(std::optional<int64_t> budget, int64_t total, std::string_view key) {
  if (!budget || total == 0 || *budget <= total) return;
  throw input_error(key, "expected at most the {} that this machine has, got {}; lower it", format_bytes(total),
                    format_bytes(*budget));
}

// A GPU's memory holds the arena and what comes to be beside it, or the run fails halfway.
void leave_reserve(Budget& budget, const config::MemoryConfig& memory, int64_t free) {
  const int64_t most = std::max<int64_t>(0, free - kGpuReserve);
  if (memory.device.empty()) budget.device = std::min(*budget.device, most);
  if (*budget.device <= most) return;
  throw input_error(memory.device_key,
                    "expected at most {}, the {} that are free on the GPU but for {} that kernels and graphs may take, "
                    "got {}; lower it",
                    format_bytes(most), format_bytes(free), format_bytes(kGpuReserve), format_bytes(*budget.device));
}

}  // namespace

Policy make_policy(const config::Config& config) {
  const bool fixed = config.memory.plan == config::PlanMode::kFixed;
  Policy policy;
  fix_checkpointing(policy, config, fixed ? Choice(Treatment::kKeep) : Choice());
  fix_offloading(policy, config);
  fix_selective(policy, config);

  const std::optional<Tier> left_out = fixed ? std::optional(Tier::kDevice) : std::nullopt;
  // Full fine-tuning has no frozen weights for layer_offloading to move.
  const bool is_asked = config.layer_offloading && config.adapter != config::Adapter::kNone;
  const auto frozen = is_asked ? as_offload(config.layer_offloading) : config.parameter_offload;
  policy.frozen_weights = home_of(frozen, left_out);
  policy.trainable_weights = home_of(config.parameter_offload, left_out);
  policy.outer_weights = policy.trainable_weights;
  policy.gradients = home_of(config.gradient_offload, left_out);
  policy.optimizer_state = home_of(config.optimizer_offload, left_out);
  return policy;
}

Policy make_policy(const config::Config& config, const ModelConfig& model) {
  Policy policy = make_policy(config);
  fix_recomputed_layers(policy, config, model);
  return policy;
}

std::array<std::string, kBudgetedTiers> budget_keys(const config::MemoryConfig& memory) {
  return {memory.device_key, memory.host_key, memory.disk_key};
}

Budget make_budget(const config::MemoryConfig& memory, const Policy& policy, const Machine& machine) {
  const auto capacity = [&](Tier tier) { return machine.capacity_bytes[static_cast<size_t>(tier)]; };
  const auto total = [&](Tier tier) { return machine.total_bytes[static_cast<size_t>(tier)]; };
  const bool is_one_ram = capacity(Tier::kHost) == 0;
  const int64_t ram = capacity(is_one_ram ? Tier::kDevice : Tier::kHost);
  const auto budget_of = [](const std::string& text, int64_t whole, std::string_view key) {
    return text.empty() ? usable_bytes(whole) : parse_bytes(text, whole, key);
  };

  Budget budget;
  budget.device = budget_of(memory.device, capacity(Tier::kDevice), memory.device_key);
  check_total(budget.device, total(Tier::kDevice), memory.device_key);
  if (machine.device == DeviceKind::kCuda) leave_reserve(budget, memory, capacity(Tier::kDevice));
  if (!memory.host.empty() || memory.uses_host || uses(policy, Tier::kHost) || !is_one_ram) {
    budget.host = budget_of(memory.host, ram, memory.host_key);
    check_total(budget.host, total(is_one_ram ? Tier::kDevice : Tier::kHost), memory.host_key);
    if (is_one_ram) split_ram(budget, memory, ram);
  }
  if (!memory.disk.empty() || !memory.disk_paths.empty() || memory.uses_disk || uses(policy, Tier::kDisk)) {
    budget.disk = budget_of(memory.disk, capacity(Tier::kDisk), memory.disk_key);
  }
  return budget;
}

}  // namespace spillway::train
