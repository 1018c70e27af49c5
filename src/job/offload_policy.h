// Maps config keys to the planner's inputs, Policy and Budget. docs/modes/ describes the same for users.
#pragma once

#include <array>
#include <span>
#include <string>

#include "base/bytes.h"
#include "config/config.h"
#include "plan/budget.h"
#include "plan/machine.h"

namespace spillway::train {

// Returns what the keys fix. With memory.plan: auto, a missing key leaves its part to the planner; with fixed, it means
// the device, and activations that are kept.
[[nodiscard]] Policy make_policy(const config::OffloadSettings& settings);
// The same with the parts that keys fix for some blocks only: `windows` are the attention windows of the blocks
// (attention_windows()), and rows have up to `sequence_len` tokens.
[[nodiscard]] Policy make_policy(const config::OffloadSettings& settings, std::span<const int64_t> windows,
                                 int64_t sequence_len);

// Returns the bytes that a run may use of each tier. A tier below the device is available if its budget is given, if
// `policy` puts something there, or if it is separate memory (a GPU's host). Without budgets, device and host share the
// free RAM that both are made of. Throws InputError for budgets that RAM cannot hold together, for one that exceeds the
// capacity of a tier whose size `machine` knows, and for one that leaves a GPU less than kGpuReserve of its free
// memory.
[[nodiscard]] Budget make_budget(const config::MemorySettings& memory, const Policy& policy, const Machine& machine);

// Returns the keys that set the budgets of device, host and disk, as the config spells them.
[[nodiscard]] std::array<std::string, kBudgetedTiers> budget_keys(const config::MemorySettings& memory);

}  // namespace spillway::train
