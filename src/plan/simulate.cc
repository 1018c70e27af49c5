#include "plan/simulate.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace spillway {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr auto kCompute = static_cast<size_t>(Lane::kCompute);

// One section: from event to event, an event being the end of an instruction.
class SectionPlayer {
 public:
  SectionPlayer(const Program& program, const CostModel& costs, std::vector<bool>& finished,
                std::vector<LaneTime>* timeline, Simulation& result)
      : program_(program), costs_(costs), finished_(finished), timeline_(timeline), result_(result) {}

  // The section's length in seconds.
  double play(const Section& section) {
    begin_ = section.begin;
    end_ = section.end;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      lanes_[lane] = {.next = section.begin};
      skip_others(lane);
    }
    double computing = 0;
    for (;;) {
      start_what_can();
      size_t first = 0;
      for (size_t lane = 1; lane < kLanes; ++lane) {
        if (lanes_[lane].running && (!lanes_[first].running || lanes_[lane].finish < lanes_[first].finish))
          first = lane;
      }
      if (!lanes_[first].running) break;
      if (lanes_[first].finish == kNever) return result_.lanes[first].busy_seconds = kNever;
      now_ = lanes_[first].finish;
      if (first == kCompute) computing += now_ - lanes_[first].start;
      finish(first);
    }
    (section.phase == Phase::kUpdate ? result_.update_stall_seconds : result_.micro_step_stall_seconds) +=
        now_ - computing;
    return now_;
  }

 private:
  struct LaneState {
    int32_t next = 0;  // the lane's first instruction that is not finished, or the section's end
    bool running = false;
    double start = 0, finish = 0;
  };

  [[nodiscard]] const Instruction& at(int32_t i) const { return program_.instructions[static_cast<size_t>(i)]; }

  void skip_others(size_t lane) {
    int32_t& next = lanes_[lane].next;
    while (next < end_ && static_cast<size_t>(at(next).lane) != lane) ++next;
  }

  [[nodiscard]] bool is_ready(int32_t i) const {
    const std::vector<int32_t>& waits = at(i).waits;
    return std::all_of(waits.begin(), waits.end(),
                       [&](int32_t other) { return other < begin_ || finished_[static_cast<size_t>(other)]; });
  }

  [[nodiscard]] double seconds_of(const Instruction& instruction) const {
    if (instruction.kind == Instruction::Kind::kRun) return costs_.operation_seconds(instruction.op, instruction.lane);
    return costs_.transfer_seconds(instruction.lane, instruction.inputs[0].place.bytes);
  }

  void start_what_can() {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      LaneState& state = lanes_[lane];
      if (state.running || state.next == end_ || !is_ready(state.next)) continue;
      state.running = true;
      state.start = now_;
      state.finish = now_ + seconds_of(at(state.next)) / (lane == kCompute ? speed_ : 1);
      if (lane != kCompute) take_share(lane, 1);
    }
  }

  void finish(size_t lane) {
    LaneState& state = lanes_[lane];
    const Instruction& instruction = at(state.next);
    finished_[static_cast<size_t>(state.next)] = true;
    state.running = false;
    if (timeline_) (*timeline_)[static_cast<size_t>(state.next)] = {state.start, state.finish};
    LaneUse& use = result_.lanes[lane];
    use.busy_seconds += state.finish - state.start;
    if (instruction.kind == Instruction::Kind::kCopy)
      use.bytes += static_cast<double>(instruction.inputs[0].place.bytes);
    if (lane != kCompute) take_share(lane, -1);
    ++state.next;
    skip_others(lane);
  }

  // A lane begins (1) or ends (-1) to take its share; what is left of the operation at work now runs at another speed.
  void take_share(size_t lane, int sign) {
    const double share = costs_.machine().compute_share[lane];
    if (share == 0) return;
    busy_[lane] = sign > 0;
    double taken = 0;
    for (size_t other = 0; other < kLanes; ++other) taken += busy_[other] ? costs_.machine().compute_share[other] : 0;
    const double before = speed_;
    speed_ = 1 - std::min(kMostShare, taken);
    double& finish = lanes_[kCompute].finish;
    if (lanes_[kCompute].running && finish < kNever) finish = now_ + (finish - now_) * before / speed_;
  }

  const Program& program_;
  const CostModel& costs_;
  std::vector<bool>& finished_;
  std::vector<LaneTime>* timeline_;
  Simulation& result_;
  int32_t begin_ = 0, end_ = 0;
  double now_ = 0, speed_ = 1;
  std::array<LaneState, kLanes> lanes_;
  std::array<bool, kLanes> busy_{};
};

}  // namespace

Simulation simulate(const Program& program, const CostModel& costs, std::vector<LaneTime>* timeline) {
  Simulation result;
  std::vector<bool> finished(program.instructions.size());
  if (timeline) timeline->assign(program.instructions.size(), {});
  for (const Section& section : program.sections) {
    const double seconds = SectionPlayer(program, costs, finished, timeline, result).play(section);
    (section.phase == Phase::kUpdate ? result.update_seconds : result.micro_step_seconds) += seconds;
  }
  const auto busiest =
      std::max_element(result.lanes.begin(), result.lanes.end(),
                       [](const LaneUse& a, const LaneUse& b) { return a.busy_seconds < b.busy_seconds; });
  result.bottleneck = static_cast<Lane>(busiest - result.lanes.begin());
  return result;
}

}  // namespace spillway
