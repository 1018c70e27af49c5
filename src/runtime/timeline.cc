#include "runtime/timeline.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/index.h"

namespace spillway {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// A shorter wait costs less than starting an operation does.
constexpr double kMinStall = 2e-6;

const Instruction& at(const Program& program, int32_t i) { return nth(program.instructions, i); }

// Finds where the compute lane waits in a section, between its instructions and behind the last of them.
class StallFinder {
 public:
  StallFinder(const Program& program, Timeline& timeline) : program_(program), timeline_(timeline) {}

  void run() {
    for (const SectionRange& section : program_.sections) {
      if (section.begin == section.end) continue;
      int32_t last = section.begin;  // the instruction that finishes last
      double begin = kNever;
      for (int32_t i = section.begin; i < section.end; ++i) {
        begin = std::min(begin, time(i).start);
        if (time(i).finish > time(last).finish) last = i;
      }
      double free = begin;
      for (int32_t i = section.begin; i < section.end; ++i) {
        if (at(program_, i).lane != Lane::kCompute) continue;
        add_wait(i, free);
        free = time(i).finish;
      }
      add({free, time(last).finish, last, kNone});
    }
  }

 private:
  [[nodiscard]] const LaneTime& time(int32_t i) const { return nth(timeline_.times, i); }

  // A late start without a late wait is the executor's own overhead, no stall.
  void add_wait(int32_t i, double free) {
    const auto& waits = at(program_, i).waits;
    const auto latest = std::max_element(waits.begin(), waits.end(),
                                         [&](int32_t a, int32_t b) { return time(a).finish < time(b).finish; });
    if (latest != waits.end() && time(*latest).finish > free) add({free, time(i).start, *latest, i});
  }

  void add(const Stall& stall) {
    if (stall.finish - stall.start > kMinStall) timeline_.stalls.push_back(stall);
  }

  const Program& program_;
  Timeline& timeline_;
};

void finish(const Program& program, Timeline& timeline) {
  for (const LaneTime& time : timeline.times) timeline.seconds = std::max(timeline.seconds, time.finish);
  StallFinder(program, timeline).run();
}

// The lane whose instructions mark the time in a section.
Lane leading_lane(const Program& program, const SectionRange& section) {
  std::array<int32_t, kLanes> instructions{};
  for (int32_t i = section.begin; i < section.end; ++i) ++nth(instructions, at(program, i).lane);
  if (instructions[0] > 0) return Lane::kCompute;
  return static_cast<Lane>(std::max_element(instructions.begin(), instructions.end()) - instructions.begin());
}

}  // namespace

Timeline predicted_timeline(const Program& program, const CostModel& costs) {
  Timeline timeline;
  (void)simulate(program, costs, &timeline.times);
  // The simulator counts from the beginning of each section.
  double begin = 0;
  for (const SectionRange& section : program.sections) {
    double end = begin;
    for (int32_t i = section.begin; i < section.end; ++i) {
      LaneTime& time = nth(timeline.times, i);
      time = {begin + time.start, begin + time.finish};
      end = std::max(end, time.finish);
    }
    begin = end;
  }
  finish(program, timeline);
  return timeline;
}

bool read_trace(const LaneProfile& lanes, std::span<LaneTime> times) {
  std::fill(times.begin(), times.end(), LaneTime{kNever, kNever});
  for (int lane = 0; lane < kLanes; ++lane) {
    // Later micro-batches overwrite earlier ones.
    for (const LaneEvent& event : lanes.trace(static_cast<Lane>(lane)))
      nth(times, event.instruction) = {event.start, event.finish};
  }
  return std::none_of(times.begin(), times.end(), [](const LaneTime& time) { return time.start == kNever; });
}

Timeline measured_timeline(const Program& program, std::vector<LaneTime> times) {
  Timeline timeline{.times = std::move(times)};
  double begin = kNever;
  for (const LaneTime& time : timeline.times) begin = std::min(begin, time.start);
  for (LaneTime& time : timeline.times) time = {time.start - begin, time.finish - begin};
  finish(program, timeline);
  return timeline;
}

Timeline stretched(const Program& program, const Timeline& timeline, double begin, std::span<const double> factors) {
  Timeline result{.times = timeline.times};
  double next = begin;
  for (size_t s = 0; s < program.sections.size(); ++s) {
    const SectionRange& section = program.sections[s];
    double first = kNever, last = 0;
    for (int32_t i = section.begin; i < section.end; ++i) {
      first = std::min(first, nth(timeline.times, i).start);
      last = std::max(last, nth(timeline.times, i).finish);
    }
    if (section.begin == section.end) continue;
    const auto moved = [&](double time) { return next + factors[s] * (time - first); };
    for (int32_t i = section.begin; i < section.end; ++i) {
      const LaneTime& time = nth(timeline.times, i);
      nth(result.times, i) = {moved(time.start), moved(time.finish)};
    }
    for (const Stall& stall : timeline.stalls) {
      if (stall.waits_for < section.begin || stall.waits_for >= section.end) continue;
      result.stalls.push_back({moved(stall.start), moved(stall.finish), stall.waits_for, stall.next});
    }
    next = moved(last);
  }
  result.seconds = next;
  return result;
}

std::vector<double> clock_of(const Program& program, const Timeline& timeline) {
  std::vector<double> clock(program.instructions.size(), timeline.seconds);
  double next = timeline.seconds;
  for (auto section = program.sections.rbegin(); section != program.sections.rend(); ++section) {
    const Lane lane = leading_lane(program, *section);
    for (int32_t i = section->end - 1; i >= section->begin; --i) {
      if (at(program, i).lane == lane) next = nth(timeline.times, i).start;
      nth(clock, i) = next;
    }
  }
  return clock;
}

}  // namespace spillway
