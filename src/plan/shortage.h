// What is said of a plan that does not fit its budget: what is missing, and what would fit.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "plan/plan_context.h"

namespace spillway {

// One line: what is missing in which tiers, and the nearest change that fits. REQUIRES: !plan.fits.
[[nodiscard]] std::string shortage_message(const Plan& plan, const PlanContext& context);
// What stands behind that on the page of the plan: what is live at the peaks, and all changes that fit. REQUIRES:
// !plan.fits.
[[nodiscard]] std::string shortage_text(const Graph& graph, const Plan& plan, const PlanContext& context);

// "device 256.6 MiB, host 12.0 MiB"
[[nodiscard]] std::string peaks_text(const std::array<int64_t, kBudgetedTiers>& bytes);
// "417.3 ms", "1.28 s"
[[nodiscard]] std::string duration_text(double seconds);

}  // namespace spillway
