// Schedule and offsets -> Program.
#pragma once

#include <span>

#include "plan/schedule.h"

namespace spillway {

[[nodiscard]] Program emit_program(const Graph& graph, const Schedule& schedule, std::span<const int64_t> offsets,
                                   const std::array<int64_t, kTiers>& arena_bytes, int threads);

}  // namespace spillway
