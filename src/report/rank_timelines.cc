#include "report/rank_timelines.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/index.h"
#include "report/work_phase.h"
#include "runtime/timeline.h"

namespace spillway {
namespace {

using nlohmann::ordered_json;

constexpr double kMicrosecond = 1e-6;
// The parts of a step that are too short for a span of their own.
constexpr double kSpansPerStep = 1000;

int64_t microseconds(double seconds) { return std::llround(seconds / kMicrosecond); }

struct Interval {
  int64_t start = 0, finish = 0;
};

struct WorkSpan : Interval {
  int64_t phase = 0;
};

// The first start and the last finish of what a section computes.
Interval extent(const Timeline& timeline, const SectionRange& section) {
  Interval all{std::numeric_limits<int64_t>::max(), 0};
  for (int32_t i = section.begin; i < section.end; ++i) {
    const LaneTime& time = nth(timeline.times, i);
    all.start = std::min(all.start, microseconds(time.start));
    all.finish = std::max(all.finish, microseconds(time.finish));
  }
  return all;
}

class TraceWriter {
 public:
  TraceWriter(const Graph& graph, const Program& program, std::vector<LaneTime> times, int ranks)
      : graph_(graph), program_(program), timeline_(measured_timeline(program, std::move(times))), ranks_(ranks) {}

  ordered_json write() {
    ordered_json json = {{"spans", spans()}, {"meetings", ordered_json::array()}, {"stalls", ordered_json::array()}};
    add_exchanges(json);
    add_section_ends(json);
    return json;
  }

 private:
  [[nodiscard]] ordered_json spans() const {
    const auto shortest = static_cast<int64_t>(timeline_.seconds / kSpansPerStep / kMicrosecond);
    std::vector<WorkSpan> spans;
    for (int32_t section = 0; section < std::ssize(program_.sections); ++section) {
      const SectionRange& range = nth(program_.sections, section);
      for (int32_t i = range.begin; i < range.end; ++i) {
        const Instruction& one = nth(program_.instructions, i);
        if (one.lane != Lane::kCompute) continue;
        const LaneTime& time = nth(timeline_.times, i);
        const WorkSpan span{{microseconds(time.start), microseconds(time.finish)},
                            static_cast<int64_t>(phase_of(graph_, section, one))};
        if (spans.empty() || !join(spans.back(), span, shortest)) spans.push_back(span);
      }
    }
    ordered_json json = ordered_json::array();
    for (const WorkSpan& span : spans) json.push_back({span.start, span.finish - span.start, span.phase});
    return json;
  }

  // Makes the two one, under the name of the longer, where that hides nothing one could see.
  static bool join(WorkSpan& last, const WorkSpan& next, int64_t shortest) {
    if (next.start - last.finish > shortest) return false;
    const int64_t length = last.finish - last.start, more = next.finish - next.start;
    if (last.phase != next.phase && length > shortest && more > shortest) return false;
    if (more > length) last.phase = next.phase;
    last.finish = next.finish;
    return true;
  }

  void add_exchanges(ordered_json& json) {
    std::map<int32_t, int64_t> meeting_of;  // by instruction
    for (int32_t i = 0; i < std::ssize(program_.instructions); ++i) {
      const Instruction& one = nth(program_.instructions, i);
      if (one.lane != Lane::kPeer) continue;
      const LaneTime& time = nth(timeline_.times, i);
      const Attributes& attributes = graph_.op(one.op).attributes;
      meeting_of[i] = std::ssize(json["meetings"]);
      json["meetings"].push_back({microseconds(time.start), microseconds(time.finish),
                                  attributes.integer("ranks") * attributes.integer_or("copies", 1)});
    }
    for (const Stall& stall : timeline_.stalls) {
      const auto found = meeting_of.find(stall.waits_for);
      if (found == meeting_of.end()) continue;
      json["stalls"].push_back({microseconds(stall.start), microseconds(stall.finish - stall.start), found->second});
    }
  }

  void add_section_ends(ordered_json& json) const {
    std::vector<Interval> extents;
    for (const SectionRange& section : program_.sections)
      if (section.begin < section.end) extents.push_back(extent(timeline_, section));
    for (size_t i = 0; i + 1 < extents.size(); ++i) {
      const int64_t start = extents[i].finish, finish = extents[i + 1].start;
      json["stalls"].push_back({start, finish - start, std::ssize(json["meetings"])});
      json["meetings"].push_back({start, finish, ranks_});
    }
  }

  const Graph& graph_;
  const Program& program_;
  Timeline timeline_;
  int64_t ranks_;
};

// A meeting as a rank has traced it.
struct Meeting : Interval {
  int64_t ranks = 0;
};

std::vector<Meeting> meetings_of(const ordered_json& trace) {
  std::vector<Meeting> meetings;
  for (const ordered_json& one : trace["meetings"])
    meetings.push_back({{one[0].get<int64_t>(), one[1].get<int64_t>()}, one[2].get<int64_t>()});
  return meetings;
}

bool are_alike(const std::vector<std::vector<Meeting>>& ranks) {
  const auto same = [](const Meeting& a, const Meeting& b) { return a.ranks == b.ranks; };
  return std::all_of(ranks.begin(), ranks.end(), [&](const std::vector<Meeting>& one) {
    return std::equal(one.begin(), one.end(), ranks.front().begin(), ranks.front().end(), same);
  });
}

// Returns what to add to a rank's times so that they are on rank 0's clock: the median over the meetings of all ranks,
// none of which ends before its last rank has come.
int64_t shift_of(const std::vector<Meeting>& meetings, const std::vector<Meeting>& first, int64_t ranks) {
  std::vector<int64_t> shifts;
  for (size_t i = 0; i < meetings.size(); ++i)
    if (meetings[i].ranks >= ranks) shifts.push_back(first[i].finish - meetings[i].finish);
  if (shifts.empty()) return 0;
  const auto middle = shifts.begin() + std::ssize(shifts) / 2;
  std::nth_element(shifts.begin(), middle, shifts.end());
  return *middle;
}

// Moves the meetings to one clock, which begins when the first rank begins the step. Returns what was added by rank.
std::vector<int64_t> shift_all(std::span<const ordered_json> traces, std::vector<std::vector<Meeting>>& ranks) {
  std::vector<int64_t> shifts;
  int64_t begin = std::numeric_limits<int64_t>::max();
  for (size_t i = 0; i < ranks.size(); ++i) {
    shifts.push_back(shift_of(ranks[i], ranks.front(), std::ssize(ranks)));
    const ordered_json& spans = traces[i]["spans"];
    if (!spans.empty()) begin = std::min(begin, spans[0][0].get<int64_t>() + shifts.back());
    for (const Meeting& one : ranks[i]) begin = std::min(begin, one.start + shifts.back());
  }
  for (size_t i = 0; i < ranks.size(); ++i) {
    shifts[i] -= begin;
    for (Meeting& one : ranks[i]) one = {{one.start + shifts[i], one.finish + shifts[i]}, one.ranks};
  }
  return shifts;
}

// Returns which rank came last to a meeting of the group that `rank` is in.
int64_t last_to_come(const std::vector<std::vector<Meeting>>& ranks, size_t meeting, int64_t rank) {
  const int64_t size = nth(ranks, rank)[meeting].ranks, group = rank / size * size;
  int64_t last = rank;
  for (int64_t other = group; other < std::min(group + size, std::ssize(ranks)); ++other)
    if (nth(ranks, other)[meeting].start > nth(ranks, last)[meeting].start) last = other;
  return last;
}

ordered_json waits_of(const ordered_json& trace, const std::vector<std::vector<Meeting>>& ranks, int64_t rank,
                      int64_t shift, ordered_json& waited_seconds) {
  ordered_json waits = ordered_json::array();
  std::map<int64_t, int64_t> waited;  // by rank
  for (const ordered_json& stall : trace["stalls"]) {
    const int64_t start = stall[0].get<int64_t>() + shift, finish = start + stall[1].get<int64_t>();
    const auto meeting = stall[2].get<size_t>();
    const int64_t last = last_to_come(ranks, meeting, rank);
    const int64_t until = std::min(finish, nth(ranks, last)[meeting].start);
    if (last == rank || until <= start) continue;
    waits.push_back({start, until - start, last});
    waited[last] += until - start;
  }
  for (const auto& [other, sum] : waited)
    waited_seconds[std::to_string(other)] = static_cast<double>(sum) * kMicrosecond;
  return waits;
}

}  // namespace

ordered_json rank_trace(const Graph& graph, const Program& program, const std::vector<LaneTime>& times, int ranks) {
  return TraceWriter(graph, program, times, ranks).write();
}

ordered_json rank_timelines(std::span<const ordered_json> traces) {
  std::vector<std::vector<Meeting>> ranks;
  for (const ordered_json& trace : traces) ranks.push_back(meetings_of(trace));
  if (ranks.empty() || !are_alike(ranks)) return nullptr;
  const std::vector<int64_t> shifts = shift_all(traces, ranks);
  ordered_json by_rank = ordered_json::array();
  int64_t end = 0;
  for (int64_t rank = 0; rank < std::ssize(ranks); ++rank) {
    const ordered_json& trace = nth(traces, rank);
    const int64_t shift = nth(shifts, rank);
    ordered_json one = {{"spans", trace["spans"]}, {"exchanges", ordered_json::array()}};
    for (ordered_json& span : one["spans"]) {
      span[0] = span[0].get<int64_t>() + shift;
      end = std::max(end, span[0].get<int64_t>() + span[1].get<int64_t>());
    }
    for (const Meeting& meeting : nth(ranks, rank)) {
      one["exchanges"].push_back({meeting.start, meeting.finish - meeting.start});
      end = std::max(end, meeting.finish);
    }
    ordered_json waited = ordered_json::object();
    one["waits"] = waits_of(trace, ranks, rank, shift, waited);
    one["waited_seconds"] = std::move(waited);
    by_rank.push_back(std::move(one));
  }
  return {{"unit_seconds", kMicrosecond}, {"seconds", static_cast<double>(end) * kMicrosecond}, {"ranks", by_rank}};
}

}  // namespace spillway
