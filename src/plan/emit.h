// Turns a schedule and offsets into a Program.
#pragma once

#include <span>

#include "plan/schedule.h"

namespace spillway {

// Writes every step as an instruction on its lane, operands at `offsets` (by buffer, in bytes), with the waits for
// other lanes that follow from the bytes it shares with their instructions. `threads` is the number that the workspaces
// are sized for. Pure.
[[nodiscard]] Program emit_program(const Graph& graph, const Schedule& schedule, std::span<const int64_t> offsets,
                                   const std::array<int64_t, kTiers>& arena_bytes, int threads);

}  // namespace spillway
