#include "plan/plan_builder.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "base/math.h"
#include "graph/experts.h"
#include "graph/operation.h"
#include "plan/bundles.h"
#include "plan/emit.h"
#include "plan/offsets.h"
#include "plan/waits.h"

namespace spillway {
namespace {

// Places fixed buffers at the bottom, in their order, so that their places depend neither on the activation policy nor
// on which of a job's graphs it is; all others are packed above them. Each begins at a multiple of `alignment`, or of
// more.
void place_tier(Plan& plan, Tier tier, PackEffort effort, int64_t alignment) {
  const std::vector<Buffer>& buffers = plan.schedule.buffers;
  int64_t bottom = 0, end = 0;
  std::vector<Interval> intervals;
  std::vector<size_t> movable;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& b = buffers[i];
    if (b.tier != tier) continue;
    if (b.fixed) {
      if (tier != Tier::kFiles) bottom = align_up(bottom, std::max(alignment, b.alignment()));
      plan.offsets[i] = bottom;
      end = bottom + (b.meets_disk ? b.padded_bytes() : b.bytes);
      bottom += b.padded_bytes();
    } else {
      intervals.push_back({b.bytes, b.begin, b.end, std::max(alignment, b.alignment())});
      movable.push_back(i);
    }
  }
  for (const Interval& interval : intervals) alignment = std::max(alignment, interval.alignment);
  if (!intervals.empty()) bottom = align_up(bottom, alignment);
  const Packing packing = pack(intervals, effort);
  for (size_t k = 0; k < movable.size(); ++k) plan.offsets[movable[k]] = bottom + packing.offsets[k];

  TierPeak& peak = nth(plan.peaks, tier);
  // The padding of the highest buffer is not part of the arena.
  peak = {movable.empty() ? end : bottom + packing.bytes, bottom + packing.lower_bound, peak.step};
}

// Returns the least time in which two lanes can do this work, if each loses a share of its speed to the other: with
// both at work from the beginning, if that is any faster than one after the other.
double both_seconds(double work, double share, double other_work, double other_share) {
  const double gain = 1 - share - other_share;
  if (gain <= 0) return work + other_work;
  return work + other_work - gain * std::min(work / (1 - share), other_work / (1 - other_share));
}

// Takes the maximum of `live`, which is by step, over each part of each section.
void take_parts(const std::vector<int64_t>& live, std::span<const SectionRange> sections, size_t tier,
                PartBytes& parts) {
  for (size_t section = 0; section < sections.size(); ++section) {
    const int64_t begin = sections[section].begin, steps = sections[section].end - begin;
    const auto start = [&](int64_t part) { return live.begin() + begin + div_ceil(part * steps, kSectionParts); };
    for (int64_t part = 0; part < kSectionParts; ++part) {
      if (start(part) == start(part + 1)) continue;
      nth(parts, static_cast<int64_t>(section) * kSectionParts + part)[tier] =
          *std::max_element(start(part), start(part + 1));
    }
  }
}

}  // namespace

int64_t missing_bytes(const std::array<int64_t, kTiers>& arenas, const Budget& budget) {
  int64_t sum = 0;
  for (const Tier tier : kEachBudgetedTier) {
    if (const auto allowed = budget.of(tier)) sum += std::max<int64_t>(0, nth(arenas, tier) - *allowed);
  }
  return sum;
}

void compare_with(Plan& plan, const Budget& budget) {
  plan.fits = true;
  for (const Tier tier : kEachBudgetedTier) {
    const std::optional<int64_t> allowed = budget.of(tier);
    int64_t& missing = nth(plan.missing_bytes, tier);
    missing = allowed ? std::max<int64_t>(0, nth(plan.peaks, tier).bytes - *allowed) : 0;
    plan.fits = plan.fits && missing == 0;
  }
}

PlanBuilder::PlanBuilder(const Graph& graph, const Machine& machine, OwnFiles own_files, int64_t least_left_out)
    : graph_(graph), own_files_(std::move(own_files)), costs_(graph, machine), facts_(facts_of(graph)) {
  for (OpId id = 0; id < static_cast<OpId>(graph.ops.size()); ++id) {
    int64_t workspace = workspace_of(graph, id, machine.threads, machine.device);
    if (may_run_on_host(graph, id)) workspace = std::max(workspace, workspace_of(graph, id, machine.threads));
    nth(facts_.ops, id).workspace_bytes = workspace;
  }
  scheduling_work_ = std::ssize(graph.ops);
  for (ValueId id = 0; id < std::ssize(graph.values); ++id)
    scheduling_work_ += graph.is_persistent(id) && is_of_expert(graph, id) ? 1 : 0;
  if (least_left_out == kAllApart) return;
  JoinedFacts joined = join_experts(graph, own_files_, facts_);
  if (joined.left_out < least_left_out) return;
  facts_ = std::move(joined.facts);
  left_out_ = joined.left_out;
  for (const auto& [op, other] : joined.joined_ops) costs_.join(op, other);
}

Plan PlanBuilder::build(const Choices& choices, PackEffort effort) const {
  SPILLWAY_CHECK(left_out_ == 0, "a program without {} values and operations", left_out_);
  Plan plan = schedule(choices);
  place(plan, effort);
  predict(plan);
  std::array<int64_t, kTiers> arena_bytes{};
  for (const Tier tier : kEachTier) nth(arena_bytes, tier) = nth(plan.peaks, tier).bytes;
  plan.program = emit_program(graph_, plan.schedule, plan.offsets, arena_bytes, costs_.machine().threads);
  return plan;
}

Plan PlanBuilder::schedule(const Choices& choices, PartBytes* parts) const {
  Plan plan{.choices = choices};
  const Placement placement = place_values(graph_, facts_, choices, own_files_);
  plan.schedule = make_schedule(graph_, facts_, placement, choices.overlap, costs_);
  if (parts) parts->assign(plan.schedule.sections.size() * kSectionParts, {});
  const auto live = live_bytes(plan.schedule);
  for (size_t tier = 0; tier < kTiers; ++tier) {
    if (parts && tier < kBudgetedTiers) take_parts(live[tier], plan.schedule.sections, tier, *parts);
    const auto peak = std::max_element(live[tier].begin(), live[tier].end());
    if (peak == live[tier].end()) continue;
    // The padding of the highest buffer need not be in the arena.
    const int64_t least = std::max<int64_t>(0, *peak - (kArenaAlignment - 1));
    plan.peaks[tier] = {least, *peak, static_cast<int32_t>(peak - live[tier].begin())};
  }
  return plan;
}

void PlanBuilder::place(Plan& plan, PackEffort effort) const {
  plan.offsets.assign(plan.schedule.buffers.size(), -1);
  for (const Tier tier : kEachTier) {
    const bool is_device = tier == Tier::kDevice;
    place_tier(plan, tier, effort, is_device ? arena_alignment(costs_.machine().device) : kArenaAlignment);
  }
}

void PlanBuilder::predict(Plan& plan) const {
  const Waits waits = find_waits(plan.schedule, plan.offsets);
  std::vector<Task> tasks;
  tasks.reserve(plan.schedule.steps.size());
  for (const Step& step : plan.schedule.steps)
    tasks.push_back(
        {step.lane, seconds_of(plan.schedule, step), moved_bytes(plan.schedule, step), waits.of(tasks.size())});
  plan.simulation = simulate(tasks, plan.schedule.sections, costs_.machine());
}

int64_t PlanBuilder::moved_bytes(const Schedule& schedule, const Step& step) const {
  if (step.op != kNone) return costs_.sent_bytes(step.op);
  return expected_bytes(nth(schedule.buffers, schedule.inputs(step)[0]).bytes, step.guard.chance);
}

double PlanBuilder::seconds_of(const Schedule& schedule, const Step& step) const {
  if (step.op != kNone) return costs_.operation_seconds(step.op, step.lane);
  const ValueId storage = facts_.value(step.moved).storage;
  return costs_.transfer_seconds(step.lane, moved_bytes(schedule, step), facts_.value(storage).parts);
}

LaneWork PlanBuilder::work_of(const Schedule& schedule) const {
  LaneWork work;
  for (const SectionRange& section : schedule.sections) {
    std::array<double, kLanes>& seconds = work.emplace_back();
    for (int32_t i = section.begin; i < section.end; ++i) {
      const Step& step = nth(schedule.steps, i);
      nth(seconds, step.lane) += seconds_of(schedule, step);
    }
  }
  return work;
}

double PlanBuilder::min_seconds(const LaneWork& work, int64_t accumulation) const {
  const std::array<double, kLanes>& shares = costs_.machine().compute_share;
  std::array<double, kLanes> losses = costs_.machine().opposite_share;
  for (double& loss : losses) loss = std::min(loss, kMaxShare);
  const double all_shares = std::accumulate(shares.begin(), shares.end(), 0.0);
  const double scale = all_shares > kMaxShare ? kMaxShare / all_shares : 1;
  double sum = 0;
  for (size_t section = 0; section < work.size(); ++section) {
    const std::array<double, kLanes>& seconds = work[section];
    double computing = nth(seconds, Lane::kCompute);
    for (size_t lane = 0; lane < kLanes; ++lane)
      if (shares[lane] > 0) computing += scale * shares[lane] * seconds[lane];
    double busiest = *std::max_element(seconds.begin(), seconds.end());
    for (const Lane lane : {Lane::kHostToDevice, Lane::kDiskRead}) {
      const Lane back = opposite_of(lane);
      busiest =
          std::max(busiest, both_seconds(nth(seconds, lane), nth(losses, lane), nth(seconds, back), nth(losses, back)));
    }
    const int64_t runs = runs_per_step(graph_.sections[section].repeats, accumulation);
    sum += static_cast<double>(runs) * std::max(computing, busiest);
  }
  return sum;
}

}  // namespace spillway
