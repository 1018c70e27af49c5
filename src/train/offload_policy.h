// From keys to what the planner is told: Policy and Budget. docs/modes/ says the same to users.
#pragma once

#include <array>
#include <span>
#include <string>

#include "base/bytes.h"
#include "config/config.h"
#include "plan/budget.h"
#include "plan/machine.h"

namespace spillway::train {

// What the keys fix. Under memory.plan: auto a key that is left out leaves its part open; under fixed it means the
// device, and activations that are kept.
[[nodiscard]] Policy make_policy(const config::OffloadSettings& settings);
// With what they fix for some blocks of a model only, whose windows (attention_windows()) differ and whose rows have up
// to `sequence_len` tokens.
[[nodiscard]] Policy make_policy(const config::OffloadSettings& settings, std::span<const int64_t> windows,
                                 int64_t sequence_len);

// The bytes that a run may use of each tier. A tier below the device is there where its budget is given, where
// `policy` puts something there, or where it is memory of its own (a GPU's host); left to their defaults, device and
// host share what is free of the RAM that both are made of. Throws InputError for budgets that RAM cannot hold
// together, for one that is more than the whole of a tier whose size `machine` knows, and for one that leaves a GPU
// less than kGpuReserve of what is free.
[[nodiscard]] Budget make_budget(const config::MemorySettings& memory, const Policy& policy, const Machine& machine);

// The keys that set the budgets of device, host and disk: those that the config has used.
[[nodiscard]] std::array<std::string, kBudgetedTiers> budget_keys(const config::MemorySettings& memory);

// Of what is free, what budgets take by themselves: the rest is for what lives outside the arenas.
[[nodiscard]] constexpr int64_t usable_bytes(int64_t free_bytes) { return free_bytes / 10 * 9; }

// What every budget leaves of a GPU's memory that is free once the libraries have made their contexts: for the code of
// kernels, which is loaded when each first runs, and for sections that are captured as graphs. An estimate; what they
// took is device_library_bytes in report.json.
inline constexpr int64_t kGpuReserve = 512 * kMiB;

}  // namespace spillway::train
