// What a user could change so that a job takes less memory, or other memory.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "config/load.h"
#include "job/job.h"

namespace spillway::train {

using Overrides = std::vector<config::ConfigOverride>;

struct Lever {
  std::vector<Overrides> grades;  // from what asks least of the user on: what follows one that fits, fits
  bool is_enough_alone = true;    // it may be; else it can only help others
  // What is trained then, where that is not the same on the same rows in the same steps: "on shorter rows".
  std::string_view trains{};
  bool is_last_resort = false;  // where nothing else makes the job fit
  // A lower tier, given to the plan as a whole: what the plan takes of it is enough.
  std::optional<Tier> opens;
};

// Of a job whose `plan` does not fit, written with the keys that the config uses; what asks least comes first. Larger
// budgets of what is missing are not among them: they always help.
[[nodiscard]] std::vector<Lever> levers_of(const config::LoadedConfig& loaded, const Job& job, const Plan& plan,
                                           const Machine& machine);

// The budgets with which a job would fit that is short of so many bytes, by tier. Empty where `job` has no budget of
// such a tier, or the machine has too little of it free.
[[nodiscard]] Overrides raised_budgets(const Job& job, const std::array<int64_t, kTiers>& missing_bytes,
                                       const Machine& machine);

// A tier's budget, as the config would say it.
[[nodiscard]] config::ConfigOverride budget_of(const Job& job, Tier tier, int64_t bytes);

}  // namespace spillway::train
