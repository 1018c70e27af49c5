// From keys to what the planner is told: Policy and Budget. docs/modes/ says the same to users.
#pragma once

#include "plan/budget.h"
#include "plan/machine.h"
#include "train/config.h"

namespace spillway::train {

// What the keys fix. Under memory.plan: auto a key that is left out leaves its part open; under fixed it means the
// device, and activations that are kept. REQUIRES: a loaded config.
[[nodiscard]] Policy make_policy(const Config& config);

// The bytes that a run may use of each tier. A tier below the device is there where its budget is given, where
// `policy` puts something there, or where it is memory of its own (a GPU's host); left to their defaults, device and
// host share what is free of the RAM that both are made of. Throws InputError for budgets that RAM cannot hold
// together.
[[nodiscard]] Budget make_budget(const MemoryConfig& memory, const Policy& policy, const Machine& machine);

}  // namespace spillway::train
