#include "plan/simulate.h"

#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <utility>
#include <vector>

#include "base/index.h"

namespace spillway {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr auto kCompute = static_cast<size_t>(Lane::kCompute);
constexpr auto kFullSpeed = [] {
  std::array<double, kLanes> speeds{};
  speeds.fill(1);
  return speeds;
}();

// Plays one section from event to event: a lane becomes free, or a transfer arrives.
class SectionPlayer {
 public:
  SectionPlayer(std::span<const Task> tasks, const Machine& machine, std::vector<bool>& finished,
                std::vector<LaneTime>* timeline, Simulation& result)
      : tasks_(tasks), machine_(machine), finished_(finished), timeline_(timeline), result_(result) {}

  // Returns the section's length in seconds.
  double play(const SectionRange& section) {
    begin_ = section.begin;
    end_ = section.end;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      lanes_[lane] = {.next = section.begin};
      skip_others(lane);
    }
    double computing = 0;
    for (;;) {
      start_what_can();
      LaneState* first = nullptr;
      for (LaneState& lane : lanes_) {
        if (lane.has_event() && (!first || lane.next_event() < first->next_event())) first = &lane;
      }
      if (!first) break;
      const auto lane = static_cast<size_t>(first - lanes_.data());
      if (first->next_event() == kNever) return result_.lanes[lane].busy_seconds = kNever;
      now_ = first->next_event();
      if (first->is_arrival_next()) {
        arrive(*first);
        continue;
      }
      if (lane == kCompute) computing += now_ - first->start;
      finish(lane);
    }
    (section.repeats == Repeats::kStep ? result_.update_stall_seconds : result_.micro_step_stall_seconds) +=
        now_ - computing;
    return now_;
  }

 private:
  struct Arrival {
    int32_t instruction = 0;
    double start = 0, time = 0;
  };
  struct LaneState {
    int32_t next = 0;  // the lane's first instruction that is not done, or the section's end
    bool running = false;
    double start = 0, finish = 0;
    std::deque<Arrival> under_way;  // transfers that the lane is done with

    [[nodiscard]] bool has_event() const { return running || !under_way.empty(); }
    [[nodiscard]] bool is_arrival_next() const {
      return !under_way.empty() && (!running || under_way.front().time <= finish);
    }
    [[nodiscard]] double next_event() const { return is_arrival_next() ? under_way.front().time : finish; }
  };

  [[nodiscard]] const Task& at(int32_t i) const { return nth(tasks_, i); }

  void skip_others(size_t lane) {
    int32_t& next = lanes_[lane].next;
    while (next < end_ && static_cast<size_t>(at(next).lane) != lane) ++next;
  }

  [[nodiscard]] bool is_ready(int32_t i) const {
    const std::span<const int32_t> waits = at(i).waits;
    return std::all_of(waits.begin(), waits.end(),
                       [&](int32_t other) { return other < begin_ || nth(finished_, other); });
  }

  void start_what_can() {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      LaneState& state = lanes_[lane];
      if (state.running || state.next == end_ || !is_ready(state.next)) continue;
      state.running = true;
      state.start = now_;
      state.finish = now_ + at(state.next).seconds / speeds_[lane];
      set_busy(lane, true);
    }
  }

  void finish(size_t lane) {
    LaneState& state = lanes_[lane];
    state.running = false;
    LaneUse& use = result_.lanes[lane];
    use.busy_seconds += state.finish - state.start;
    use.bytes += static_cast<double>(at(state.next).moved_bytes);
    set_busy(lane, false);
    const double latency = machine_.link_latency_seconds[lane];
    state.under_way.push_back({state.next, state.start, now_ + latency});
    if (latency == 0) arrive(state);
    ++state.next;
    skip_others(lane);
  }

  void arrive(LaneState& state) {
    const Arrival& arrival = state.under_way.front();
    nth(finished_, arrival.instruction) = true;
    if (timeline_) nth(*timeline_, arrival.instruction) = {arrival.start, arrival.time};
    state.under_way.pop_front();
  }

  // Sets whether a lane is busy and so takes its share of others' speed.
  void set_busy(size_t lane, bool is_busy) {
    if (lane == kCompute) return;
    busy_[lane] = is_busy;
    if (machine_.compute_share[lane] > 0) {
      double taken = 0;
      for (size_t other = 0; other < kLanes; ++other) taken += busy_[other] ? machine_.compute_share[other] : 0;
      set_speed(kCompute, 1 - std::min(kMaxShare, taken));
    }
    const auto opposite = static_cast<size_t>(opposite_of(static_cast<Lane>(lane)));
    if (opposite != lane) set_speed(opposite, is_busy ? 1 - std::min(kMaxShare, machine_.opposite_share[opposite]) : 1);
  }

  // Lets the rest of the lane's current work run at another speed.
  void set_speed(size_t lane, double speed) {
    const double before = std::exchange(speeds_[lane], speed);
    double& finish = lanes_[lane].finish;
    if (speed != before && lanes_[lane].running && finish < kNever) finish = now_ + (finish - now_) * before / speed;
  }

  std::span<const Task> tasks_;
  const Machine& machine_;
  std::vector<bool>& finished_;
  std::vector<LaneTime>* timeline_;
  Simulation& result_;
  int32_t begin_ = 0, end_ = 0;
  double now_ = 0;
  std::array<LaneState, kLanes> lanes_;
  std::array<bool, kLanes> busy_{};
  std::array<double, kLanes> speeds_ = kFullSpeed;
};

}  // namespace

Simulation simulate(const Program& program, const CostModel& costs, std::vector<LaneTime>* timeline) {
  std::vector<Task> tasks;
  tasks.reserve(program.instructions.size());
  for (const Instruction& i : program.instructions) {
    if (i.kind == Instruction::Kind::kRun) {
      tasks.push_back({i.lane, costs.operation_seconds(i.op, i.lane), costs.sent_bytes(i.op), i.waits});
    } else {
      const int64_t bytes = expected_bytes(i.inputs[0].place.bytes, i.chance);
      tasks.push_back({i.lane, costs.transfer_seconds(i.lane, bytes), bytes, i.waits});
    }
  }
  return simulate(tasks, program.sections, costs.machine(), timeline);
}

Simulation simulate(std::span<const Task> tasks, std::span<const SectionRange> sections, const Machine& machine,
                    std::vector<LaneTime>* timeline) {
  Simulation result;
  std::vector<bool> finished(tasks.size());
  if (timeline) timeline->assign(tasks.size(), {});
  for (const SectionRange& section : sections) {
    const double seconds = SectionPlayer(tasks, machine, finished, timeline, result).play(section);
    (section.repeats == Repeats::kStep ? result.update_seconds : result.micro_step_seconds) += seconds;
  }
  const auto busiest =
      std::max_element(result.lanes.begin(), result.lanes.end(),
                       [](const LaneUse& a, const LaneUse& b) { return a.busy_seconds < b.busy_seconds; });
  result.bottleneck = static_cast<Lane>(busiest - result.lanes.begin());
  return result;
}

}  // namespace spillway
