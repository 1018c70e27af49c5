// Texts about a plan that does not fit its budget: what is missing, and which changes would fit.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "plan/plan_context.h"

namespace spillway {

// Returns one line: the missing bytes by tier, and the nearest change that fits. REQUIRES: !plan.fits.
[[nodiscard]] std::string shortage_message(const Plan& plan, const PlanContext& context);
// Returns the details for the plan's page: the values live at the peaks, and all changes that fit. REQUIRES:
// !plan.fits.
[[nodiscard]] std::string shortage_text(const Graph& graph, const Plan& plan, const PlanContext& context);

// Returns text such as "device 256.6 MiB, host 12.0 MiB".
[[nodiscard]] std::string peaks_text(const std::array<int64_t, kBudgetedTiers>& bytes);
// Returns text such as "417.3 ms" or "1.28 s".
[[nodiscard]] std::string duration_text(double seconds);

}  // namespace spillway
