// The share of a job that one of its ranks has, which is the same for all of them.
#pragma once

#include <array>
#include <cstdint>

#include "plan/plan_context.h"

namespace spillway {

struct RankShare {
  // The bytes of persistent values by tier of their home and ValueKind: what a rank keeps from step to step.
  std::array<std::array<int64_t, kValueKinds>, kTiers> holds{};
  int64_t sent_bytes_per_step = 0;  // with all tokens in every micro-batch
};
[[nodiscard]] RankShare rank_share(const Graph& graph, const Program& program, const PlanContext& context);

}  // namespace spillway
