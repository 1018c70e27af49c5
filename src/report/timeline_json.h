// Timelines of programs as compact JSON: each instruction once, with its times in every timeline.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <optional>
#include <span>

#include "runtime/timeline.h"

namespace spillway {

// {"unit_seconds": 1e-7, "strings": [...], "blocks": [...],
//  "instructions": [[lane, class, what, value, block, bytes, count], ...],
//  "predicted": {"seconds", "start": [...], "duration": [...], "stalls": [[start, duration, instruction], ...]},
//  "measured": the same, or null}
// Times are in units of unit_seconds; `class` is a MemoryClass for copies and 8 + (forward, backward, recompute,
// update) for operations; `what` ("matmul", "device to host") and `value` index into strings; block -1: none. Programs
// of more than `most` instructions have neighbours of a lane merged where they are alike and nothing waits between
// them: `count` says how many.
[[nodiscard]] nlohmann::ordered_json timeline_json(const Graph& graph, const Program& program,
                                                   const Timeline& predicted, const std::optional<Timeline>& measured,
                                                   size_t most = 8000);

// The same for several programs on one axis, each with its own maximal number of instructions; measured if all of them
// are.
struct TimelinePart {
  const Graph* graph;
  const Program* program;
  Timeline predicted;
  std::optional<Timeline> measured;
};
[[nodiscard]] nlohmann::ordered_json timeline_json(std::span<const TimelinePart> parts, size_t most = 8000);

}  // namespace spillway
