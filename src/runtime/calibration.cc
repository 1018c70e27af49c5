#include "runtime/calibration.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/clock.h"
#include "base/index.h"
#include "plan/signature.h"
#include "runtime/cpu_share.h"
#include "runtime/loaded_program.h"
#include "runtime/timeline.h"

namespace spillway {
namespace {

constexpr int64_t kWarmUpSteps = 2;
constexpr int64_t kMinSteps = 3, kMaxSteps = 64;

// The largest change that one run may make. Disks vary more from one moment to the next than kernels do.
constexpr double kMaxChangeOfOperation = 1.25, kMaxChangeOfLane = 1.5;

// The largest change that all runs together may make to a measured value. A larger difference means other load.
constexpr double kMaxCorrection = 1.5;

// The least share of an operation's time that is its own, however busy other lanes were.
constexpr double kMinOwnShare = 0.2;

// The bytes that a lane must move in a micro-batch and an update for its time to be more than latency.
constexpr double kMinBytesOfLane = 16.0 * (1 << 20);

// Steps that vary by more than this shared the computer with other work.
constexpr double kMaxSpread = 1.15;

// Returns the quantile of samples.
double quantile(std::vector<double> samples, double share) {
  const auto at = samples.begin() + static_cast<int64_t>(share * static_cast<double>(samples.size() - 1));
  std::nth_element(samples.begin(), at, samples.end());
  return *at;
}

// Moves `known` towards the value of a run; `measured` keeps the value before any correction.
void correct(double& known, double seen, double max_change, double& measured) {
  if (measured <= 0) measured = known;
  const double step = std::clamp(seen, known / max_change, known * max_change);
  known = std::clamp(step, measured / kMaxCorrection, measured * kMaxCorrection);
}

}  // namespace

Calibration::Calibration(const Graph& graph, const Program& program, const Machine& machine)
    : program_(program),
      latency_seconds_(machine.link_latency_seconds),
      disks_(machine.disks),
      trace_(program.instructions.size()),
      computes_here_(machine.device == DeviceKind::kCpu) {
  for (size_t lane = 1; lane < kLanes; ++lane) {
    shares_[0][lane] = machine.compute_share[lane];
    const auto opposite = static_cast<size_t>(opposite_of(static_cast<Lane>(lane)));
    if (opposite != lane) shares_[lane][opposite] = machine.opposite_share[lane];
  }
  step_seconds_.reserve(kMaxSteps);
  std::map<std::pair<std::string, Lane>, int32_t> known;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    nth(instructions_, instruction.lane).push_back(static_cast<int32_t>(i));
    std::string signature;
    if (instruction.kind == Instruction::Kind::kRun) signature = signature_of(graph, instruction.op);
    const auto [entry, is_new] = known.try_emplace({signature, instruction.lane}, static_cast<int32_t>(groups_.size()));
    if (is_new) {
      groups_.push_back({.signature = signature, .lane = instruction.lane});
      groups_.back().samples.reserve(kMaxSteps);
    }
    group_of_.push_back(entry->second);
  }
}

double Calibration::begin_of(std::span<const LaneTime> times, size_t lane, size_t index) const {
  const auto time = [&](size_t i) { return nth(times, instructions_[lane][i]); };
  return index == 0 ? time(index).start : std::max(time(index).start, time(index - 1).finish);
}

double Calibration::undisturbed_seconds(std::span<const LaneTime> times, size_t lane, const LaneTime& time) {
  double taken = 0;
  for (size_t other = 1; other < kLanes; ++other) {
    if (shares_[lane][other] == 0) continue;
    const std::vector<int32_t>& instructions = instructions_[other];
    const auto finish_of = [&](size_t i) { return nth(times, instructions[i]).finish; };
    while (passed_[other] < instructions.size() && finish_of(passed_[other]) <= time.start) ++passed_[other];
    for (size_t i = passed_[other]; i < instructions.size() && begin_of(times, other, i) < time.finish; ++i) {
      const double both = std::min(finish_of(i), time.finish) - std::max(begin_of(times, other, i), time.start);
      taken += shares_[lane][other] * std::max(0.0, both);
    }
  }
  const double seconds = time.finish - time.start;
  return std::max(kMinOwnShare * seconds, seconds - taken);
}

double Calibration::transfer_seconds(std::span<const LaneTime> times, size_t lane, size_t index) {
  const LaneTime& own = nth(times, instructions_[lane][index]);
  const double begin = begin_of(times, lane, index);
  const double seconds = undisturbed_seconds(times, lane, {begin, own.finish});
  // A transfer that directly follows another shares its latency, which comes after both.
  const double latency = begin > own.start ? 0 : latency_seconds_[lane];
  return std::max(kMinOwnShare * seconds, seconds - latency);
}

void Calibration::begin_step(double stall_seconds) {
  wall_begin_ = now_seconds();
  cpu_begin_ = thread_cpu_seconds();
  stall_begin_ = stall_seconds;
}

bool Calibration::had_cpu(double stall_seconds) const {
  const double wanted = now_seconds() - wall_begin_ - (stall_seconds - stall_begin_);
  return thread_cpu_seconds() - cpu_begin_ >= kMinCpuShare * wanted;
}

void Calibration::add_step(const LaneProfile& lanes) {
  if (computes_here_ && !had_cpu(lanes.stall_seconds())) return;
  if (read_trace(lanes, trace_)) add_step(trace_);
}

void Calibration::add_step(std::span<const LaneTime> times) {
  if (++steps_ <= kWarmUpSteps) return;
  for (Group& group : groups_) group.seconds = group.amount = 0;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    passed_.fill(0);
    for (size_t k = 0; k < instructions_[lane].size(); ++k) {
      const int32_t i = instructions_[lane][k];
      const Instruction& instruction = nth(program_.instructions, i);
      if (instruction.guard != kNone) continue;  // what it moved is not known here
      Group& group = nth(groups_, nth(group_of_, i));
      const bool is_copy = instruction.kind == Instruction::Kind::kCopy;
      group.amount += is_copy ? static_cast<double>(instruction.inputs[0].place.bytes) : 1;
      group.seconds += is_copy ? transfer_seconds(times, lane, k)
                               : undisturbed_seconds(times, lane, {begin_of(times, lane, k), nth(times, i).finish});
    }
  }
  const auto slot = static_cast<size_t>((steps_ - kWarmUpSteps - 1) % kMaxSteps);
  const auto put = [slot](std::vector<double>& samples, double sample) {
    if (samples.size() <= slot) samples.resize(slot + 1);
    samples[slot] = sample;
  };
  double begin = times.front().start, end = begin;
  for (const LaneTime& time : times) begin = std::min(begin, time.start), end = std::max(end, time.finish);
  put(step_seconds_, end - begin);
  for (Group& group : groups_) put(group.samples, group.amount > 0 ? group.seconds / group.amount : 0);
}

bool Calibration::improve(Machine& machine) const {
  if (std::ssize(step_seconds_) < kMinSteps) return false;
  if (quantile(step_seconds_, 0.75) > kMaxSpread * quantile(step_seconds_, 0.25)) return false;
  for (const Group& group : groups_) {
    const double seconds = quantile(group.samples, 0.5);
    if (seconds <= 0 || group.lane == Lane::kPeer) continue;  // a collective's time is that of the slowest rank
    if (group.signature.empty()) {
      if (group.amount < kMinBytesOfLane) continue;
      if (Memory::is_disk_lane(group.lane) && machine.disks != disks_) continue;
      double& rate = nth(machine.link_bytes_per_second, group.lane);
      if (rate <= 0) continue;
      const bool is_disk = Memory::is_disk_lane(group.lane);
      if ((is_disk ? machine.cpu_shares.disks : machine.cpu_shares.rates) < kMinCpuShare) {
        rate = 1 / seconds;
      } else {
        correct(rate, 1 / seconds, kMaxChangeOfLane, nth(machine.measured.link_bytes_per_second, group.lane));
      }
      continue;
    }
    const auto of_lane =
        group.lane == Lane::kHostCompute ? &Machine::OperationSeconds::host : &Machine::OperationSeconds::compute;
    Machine::OperationSeconds& operation = machine.operations[group.signature];
    double& known = operation.*of_lane;
    if (known > 0 && !operation.is_provisional()) {
      correct(known, seconds, kMaxChangeOfOperation, machine.measured.operations[group.signature].*of_lane);
      continue;
    }
    known = seconds;  // the first measurement, or the first without other programs
    if (operation.compute == 0 || operation.host == 0) operation.cpu_share = 1;
  }
  return true;
}

}  // namespace spillway
