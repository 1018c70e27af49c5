#include "runtime/lane_profile.h"

#include <algorithm>

#include "base/clock.h"
#include "base/index.h"
#include "base/math.h"
#include "base/sizes.h"

namespace spillway {

LaneProfile::LaneProfile(const LoadedProgram& loaded, int64_t traced_micro_steps)
    : loaded_(loaded), traced_micro_steps_(traced_micro_steps), instructions_(loaded.program().instructions.size()) {
  const Program& program = loaded.program();
  for (const Operand& home : program.homes) {
    int64_t& top = nth(home_bytes_, home.place.tier);
    const int64_t unit = home.place.tier == Tier::kDisk ? kDiskAlignment : 1;
    top = std::max(top, home.place.offset + align_up(home.place.bytes, unit));
  }
  if (traced_micro_steps == 0) return;
  std::array<int64_t, kLanes> events{};
  for (const SectionRange& section : program.sections) {
    for (int32_t i = section.begin; i < section.end; ++i) {
      nth(events, nth(program.instructions, i).lane) += runs_per_step(section.repeats, traced_micro_steps);
    }
  }
  for (const Lane lane : kEachLane) reserve(nth(lanes_, lane).events, nth(events, lane));
}

void LaneProfile::record(Lane lane, int32_t instruction, double start, double finish) {
  LanePart& part = nth(lanes_, lane);
  const double seconds = finish - std::max(start, part.last_finish);
  part.last_finish = finish;
  part.totals.busy_seconds += seconds;
  const int64_t bytes = loaded_.moved_bytes(instruction);
  part.totals.bytes += bytes;
  InstructionProfile& profile = nth(instructions_, instruction);
  ++profile.calls;
  profile.moves += bytes > 0 ? 1 : 0;
  profile.seconds += seconds;
  const auto& tops = loaded_.top_bytes(instruction);
  for (size_t tier = 0; tier < kTiers; ++tier) part.recent_bytes[tier] = std::max(part.recent_bytes[tier], tops[tier]);
  if (is_tracing_ && part.events.size() < part.events.capacity())
    part.events.push_back({instruction, start - trace_begin_, finish - trace_begin_});
}

void LaneProfile::record_section(Lane lane, double start, double finish) {
  LanePart& part = nth(lanes_, lane);
  part.last_finish = finish;
  part.totals.busy_seconds += finish - start;
}

void LaneProfile::start_trace() {
  for (LanePart& part : lanes_) part.events.clear();
  trace_begin_ = now_seconds();
  is_tracing_ = true;
}

int64_t LaneProfile::peak_bytes(Tier tier) const {
  int64_t peak = nth(home_bytes_, tier);
  for (const LanePart& part : lanes_) peak = std::max({peak, nth(part.peak_bytes, tier), nth(part.recent_bytes, tier)});
  return peak;
}

int64_t LaneProfile::take_recent_bytes(Tier tier) {
  int64_t recent = nth(home_bytes_, tier);
  for (LanePart& part : lanes_) {
    int64_t &of_part = nth(part.recent_bytes, tier), &peak = nth(part.peak_bytes, tier);
    recent = std::max(recent, of_part);
    peak = std::max(peak, of_part);
    of_part = 0;
  }
  return recent;
}

}  // namespace spillway
