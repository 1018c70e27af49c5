#include "job/offload_policy.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"
#include "base/index.h"

namespace spillway::train {
namespace {

// The saved groups inside a block, which can be recomputed.
constexpr SavedGroup kInner[] = {SavedGroup::kAttention, SavedGroup::kProduct, SavedGroup::kElementwise};

using ActivationPolicyChoice = std::optional<ActivationPolicy>;

void fix_inner(Policy& policy, ActivationPolicyChoice choice) {
  for (const SavedGroup group : kInner) policy[group] = choice;
}

// Applies gradient_checkpointing. `open` is the choice for activations that no key decides.
void fix_checkpointing(Policy& policy, const config::OffloadSettings& settings, ActivationPolicyChoice open) {
  policy.saved.fill(open);
  if (!settings.gradient_checkpointing) return;
  fix_inner(policy, *settings.gradient_checkpointing ? ActivationPolicy::kRecompute : ActivationPolicy::kKeep);
}

void fix_offloading(Policy& policy, const config::OffloadSettings& settings) {
  if (!settings.activations) return;
  const config::ActivationOffloading mode = *settings.activations;
  if (mode == config::ActivationOffloading::kOff) {
    policy[SavedGroup::kBoundary] = ActivationPolicy::kKeep;
    policy.may_move_saved = false;
    return;
  }
  const ActivationPolicy away =
      mode == config::ActivationOffloading::kDisk ? ActivationPolicy::kDisk : ActivationPolicy::kHost;
  policy[SavedGroup::kBoundary] = away;
  policy.synchronous = mode == config::ActivationOffloading::kLegacy;
  if (mode == config::ActivationOffloading::kHiddenStates || settings.gradient_checkpointing == true) return;
  // Without checkpointing all activations move, unless the plan may choose something better.
  const bool plan_decides =
      settings.plan == config::PlanMode::kAuto && !settings.has_frozen_weights && !settings.gradient_checkpointing;
  if (!plan_decides) fix_inner(policy, away);
}

SavedGroup group_of(config::SavedOutputs outputs) {
  return outputs == config::SavedOutputs::kAttention ? SavedGroup::kAttention : SavedGroup::kProduct;
}

void fix_selective(Policy& policy, const config::OffloadSettings& settings) {
  const config::SelectiveCheckpointing& selective = settings.selective_checkpointing;
  if (!selective.enabled) return;
  ActivationPolicy saved = ActivationPolicy::kKeep;
  if (selective.offload) {
    saved =
        settings.activations == config::ActivationOffloading::kDisk ? ActivationPolicy::kDisk : ActivationPolicy::kHost;
  }
  for (const config::SavedOutputs outputs : selective.save) policy[group_of(outputs)] = saved;
}

// Returns the type of a layer. A window that no row exceeds counts as full attention.
config::LayerType layer_type(int64_t window, int64_t sequence_len) {
  return window > 0 && window < sequence_len ? config::LayerType::kSlidingAttention : config::LayerType::kFullAttention;
}

// Recomputes the outputs that selective_checkpointing does not save.
void fix_recomputed_layers(Policy& policy, const config::SelectiveCheckpointing& selective,
                           std::span<const int64_t> windows, int64_t sequence_len) {
  if (!selective.enabled || selective.save_sliding_window) return;
  const std::vector<config::LayerType>& types = selective.recompute_layer_types;
  for (size_t block = 0; block < windows.size(); ++block) {
    const config::LayerType type = layer_type(windows[block], sequence_len);
    if (std::find(types.begin(), types.end(), type) == types.end()) continue;
    SavedPolicy saved = policy.saved;
    for (const config::SavedOutputs outputs : selective.save)
      nth(saved, group_of(outputs)) = ActivationPolicy::kRecompute;
    policy.saved_in.emplace(static_cast<BlockId>(block), saved);
  }
}

// `left_out` is the choice for a missing key.
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

bool uses(const Policy& policy, Tier tier) {
  const ActivationPolicy away = tier == Tier::kHost ? ActivationPolicy::kHost : ActivationPolicy::kDisk;
  return std::find(policy.saved.begin(), policy.saved.end(), away) != policy.saved.end() ||
         std::any_of(policy.rules.begin(), policy.rules.end(), [&](const Rule& rule) { return rule.home == tier; });
}

// Returns the part of the same RAM that one of device and host leaves to the other.
int64_t left_by(int64_t other, std::string_view other_key, int64_t ram) {
  const int64_t left = usable_bytes(ram) - other;
  if (left > 0) return left;
  throw input_error(other_key,
                    "expected less than {}, as device and host memory are the same RAM here, got {}; lower it",
                    format_bytes(usable_bytes(ram)), format_bytes(other));
}

void split_ram(Budget& budget, const config::MemorySettings& memory, int64_t ram) {
  const bool device_given = !memory.device.size.empty(), host_given = !memory.host.size.empty();
  if (!device_given && !host_given) {
    budget.device = budget.host = usable_bytes(ram) / 2;
  } else if (!device_given) {
    budget.device = left_by(*budget.host, memory.host.key, ram);
  } else if (!host_given) {
    budget.host = left_by(*budget.device, memory.device.key, ram);
  } else if (*budget.host > ram || *budget.device > ram - *budget.host) {
    throw input_error(memory.host.key,
                      "expected at most {} together with {}, as both are RAM here, got {} and {}; lower one",
                      format_bytes(ram), memory.device.key, format_bytes(*budget.device), format_bytes(*budget.host));
  }
}

// Throws InputError for a budget above the capacity of a tier. Less may be free now, but that may change.
void check_total(std::optional<int64_t> budget, int64_t total, std::string_view key) {
  if (!budget || total == 0 || *budget <= total) return;
  throw input_error(key, "expected at most the {} that this machine has, got {}; lower it", format_bytes(total),
                    format_bytes(*budget));
}

// Throws InputError if a GPU's memory cannot hold the arena and the later allocations, which would fail in the middle
// of a run.
void leave_reserve(Budget& budget, const config::MemorySettings& memory, int64_t free) {
  const int64_t most = std::max<int64_t>(0, free - kGpuReserve);
  if (memory.device.size.empty()) budget.device = std::min(*budget.device, most);
  if (*budget.device <= most) return;
  throw input_error(memory.device.key,
                    "expected at most {}, the {} that are free on the GPU but for {} that kernels and graphs may take, "
                    "got {}; lower it",
                    format_bytes(most), format_bytes(free), format_bytes(kGpuReserve), format_bytes(*budget.device));
}

}  // namespace

Policy make_policy(const config::OffloadSettings& settings) {
  const bool fixed = settings.plan == config::PlanMode::kFixed;
  Policy policy;
  fix_checkpointing(policy, settings,
                    fixed ? ActivationPolicyChoice(ActivationPolicy::kKeep) : ActivationPolicyChoice());
  fix_offloading(policy, settings);
  fix_selective(policy, settings);

  const std::optional<Tier> left_out = fixed ? std::optional(Tier::kDevice) : std::nullopt;
  const auto fix = [&](const GroupPattern& pattern, ValueKind kind) {
    if (const std::optional<Tier> home = home_of(settings.home_of(kind), left_out))
      policy.rules.push_back({pattern, *home});
  };
  for (const ValueKind kind : {ValueKind::kFrozenWeight, ValueKind::kTrainableWeight})
    fix({.kind = kind, .in_block = true}, kind);
  for (const ValueKind kind : {ValueKind::kFrozenWeight, ValueKind::kTrainableWeight})
    if (settings.experts)
      policy.rules.push_back({{.kind = kind, .in_block = true, .part = kExpertPart}, home_of(settings.experts, {})});
  for (const GroupPattern& pattern : kWeightsOutside) fix(pattern, ValueKind::kTrainableWeight);
  for (const ValueKind kind : {ValueKind::kGradient, ValueKind::kOptimizerState}) fix({.kind = kind}, kind);
  return policy;
}

Policy make_policy(const config::OffloadSettings& settings, std::span<const int64_t> windows, int64_t sequence_len) {
  Policy policy = make_policy(settings);
  fix_recomputed_layers(policy, settings.selective_checkpointing, windows, sequence_len);
  return policy;
}

std::array<std::string, kBudgetedTiers> budget_keys(const config::MemorySettings& memory) {
  return {memory.device.key, memory.host.key, memory.disk.key};
}

Budget make_budget(const config::MemorySettings& memory, const Policy& policy, const Machine& machine) {
  const auto capacity = [&](Tier tier) { return nth(machine.capacity_bytes, tier); };
  const auto total = [&](Tier tier) { return nth(machine.total_bytes, tier); };
  const bool is_one_ram = capacity(Tier::kHost) == 0;
  const int64_t ram = capacity(is_one_ram ? Tier::kDevice : Tier::kHost);
  const auto budget_of = [](const std::string& text, int64_t whole, std::string_view key) {
    return text.empty() ? usable_bytes(whole) : parse_bytes(text, whole, key);
  };

  Budget budget;
  budget.device = budget_of(memory.device.size, capacity(Tier::kDevice), memory.device.key);
  check_total(budget.device, total(Tier::kDevice), memory.device.key);
  if (machine.device == DeviceKind::kCuda) leave_reserve(budget, memory, capacity(Tier::kDevice));
  if (!memory.host.size.empty() || memory.host.is_asked || uses(policy, Tier::kHost) || !is_one_ram) {
    budget.host = budget_of(memory.host.size, ram, memory.host.key);
    check_total(budget.host, total(is_one_ram ? Tier::kDevice : Tier::kHost), memory.host.key);
    if (is_one_ram) split_ram(budget, memory, ram);
  }
  if (!memory.disk.size.empty() || memory.disk.is_asked || uses(policy, Tier::kDisk)) {
    budget.disk = budget_of(memory.disk.size, capacity(Tier::kDisk), memory.disk.key);
  }
  return budget;
}

}  // namespace spillway::train
