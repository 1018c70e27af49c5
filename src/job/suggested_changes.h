// Config changes that make a job take less memory, or memory of another tier.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "config/load.h"
#include "job/job.h"

namespace spillway::train {

using Overrides = std::vector<config::ConfigOverride>;

struct SuggestedChange {
  std::vector<Overrides> grades;  // from what asks least of the user on: what follows one that fits, fits
  bool is_enough_alone = true;    // it may be; else it can only help others
  // Describes what is trained with the change if it is not the same rows in the same steps: "on shorter rows".
  std::string_view trains{};
  bool is_last_resort = false;  // where nothing else makes the job fit
  // A lower tier whose whole capacity the change gives to the plan. The budget can then be lowered to what the plan
  // takes.
  std::optional<Tier> opens;
};

// Returns the key as the config spells it.
[[nodiscard]] std::string spelled_key(const config::LoadedConfig& loaded, const std::string& key);

// Returns the changes for a job whose `plan` does not fit, written with the keys that the config uses, the least
// intrusive first. Larger budgets of the missing tiers are not among them: they always help.
[[nodiscard]] std::vector<SuggestedChange> suggested_changes(const config::LoadedConfig& loaded, const Job& job,
                                                             const Plan& plan, const Machine& machine);

// Returns the budgets with which a job that lacks so many bytes, by tier, would fit. Empty if `job` has no budget of
// such a tier, or the machine has too little of it free.
[[nodiscard]] Overrides raised_budgets(const Job& job, const std::array<int64_t, kTiers>& missing_bytes,
                                       const Machine& machine);

// Returns the override that sets a tier's budget.
[[nodiscard]] config::ConfigOverride budget_of(const Job& job, Tier tier, int64_t bytes);

}  // namespace spillway::train
