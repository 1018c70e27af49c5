// The timelines of all ranks over the same step, side by side: what each computed, and which rank it waited for.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <span>
#include <vector>

#include "graph/graph.h"
#include "plan/program.h"
#include "plan/simulate.h"

namespace spillway {

// The most ranks that have a timeline: rank 0 gets all of them at the end of a run.
inline constexpr int kMaxRankTimelines = 64;

// Returns what a rank tells of a traced step, whose times by instruction are on a clock of its own:
//   {"spans": [[start, duration, WorkPhase], ...], "meetings": [[start, finish, ranks], ...],
//    "stalls": [[start, duration, meeting], ...]}
// in microseconds. Spans are computation; what is shorter than a thousandth of the step joins its neighbour. Meetings
// are what ranks do together, alike on all of them: exchanges, each of so many neighbouring ranks, and the ends of
// sections, at which all ranks (`ranks`) agree before they go on. Stalls are computation that waits for a meeting.
[[nodiscard]] nlohmann::ordered_json rank_trace(const Graph& graph, const Program& program,
                                                const std::vector<LaneTime>& times, int ranks);

// Lays such traces, by rank, on one clock, on which meetings end together, and returns
//   {"unit_seconds": 1e-6, "seconds": S, "ranks": [{"spans": [[start, duration, phase], ...],
//    "exchanges": [[start, duration], ...], "waits": [[start, duration, rank], ...],
//    "waited_seconds": {"RANK": seconds, ...}}, ...]}
// A rank waits from a stall's start until the last of the others has come to the meeting, which is the rank that it
// waits for; what is left of a stall is the exchange itself. Returns null unless the traces have the same meetings.
[[nodiscard]] nlohmann::ordered_json rank_timelines(std::span<const nlohmann::ordered_json> traces);

}  // namespace spillway
