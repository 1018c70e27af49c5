#include "report/round_json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "base/index.h"
#include "report/memory_over_step.h"
#include "report/timeline_json.h"
#include "runtime/timeline.h"

namespace spillway {
namespace {

using nlohmann::ordered_json;
using Phase = PlanContext::Generation::Phase;

constexpr size_t kRoundMemoryPoints = 300, kInstructions = 3000;  // of each program

// Returns true if all instructions of the sections that ran have a time. Sections that did not run get the time at
// which they would have: they copy rows between caches, of prompts that have nothing in common.
bool complete(const Program& program, std::vector<LaneTime>& times) {
  double last = 0;
  for (const SectionRange& section : program.sections) {
    const auto begin = times.begin() + section.begin, end = times.begin() + section.end;
    const auto is_there = [](const LaneTime& time) { return std::isfinite(time.start); };
    if (std::none_of(begin, end, is_there)) std::fill(begin, end, LaneTime{last, last});
    if (!std::all_of(begin, end, is_there)) return false;
    for (auto time = begin; time != end; ++time) last = std::max(last, time->finish);
  }
  return last > 0;
}

struct Span {
  double start = 0, seconds = 0;
};

ordered_json span_json(const Span& span) { return {span.start, span.seconds}; }

// A phase and its place on the time axes.
struct PlacedPhase {
  std::string name;
  double runs = 0;
  Span predicted, measured;
};

class RoundPicture {
 public:
  RoundPicture(const train::PlannedJob& planned, const Machine& machine, const Timeline* training,
               const GenerationTotals* totals)
      : planned_(planned),
        machine_(machine),
        training_(training),
        totals_(totals),
        is_measured_(training != nullptr && totals != nullptr && totals->rounds > 0) {
    for (const Phase& phase : generation().phases)
      is_measured_ = is_measured_ && (phase.program < 0 || !nth(totals->traces, phase.program).empty());
  }

  ordered_json json() {
    add_phases(Phase::Of::kGeneration);
    add_phases(Phase::Of::kReward);
    if (is_measured_)
      add_host_phase("reward functions", 1, 0, host_seconds(totals_->reward_seconds, Phase::Of::kReward));
    add_phases(Phase::Of::kScores);
    add_training();
    return {{"phases", phases_json()}, {"memory", memory_json()}, {"timeline", timeline_json(parts_, kInstructions)}};
  }

 private:
  [[nodiscard]] const PlanContext::Generation& generation() const { return *planned_.context.generation; }

  // A round's mean.
  [[nodiscard]] double mean(double sum) const { return sum / static_cast<double>(totals_->rounds); }

  // Returns the measured time of a round in which no program ran.
  [[nodiscard]] double host_seconds(double seconds, Phase::Of of) const {
    for (const Phase& phase : generation().phases) {
      if (phase.of == of && phase.program >= 0) seconds -= nth(totals_->program_seconds, phase.program);
    }
    return std::max(0.0, mean(seconds));
  }

  void add_phases(Phase::Of of) {
    for (const Phase& phase : generation().phases) {
      if (phase.of != of) continue;
      if (phase.program >= 0) {
        add_program(phase);
      } else {
        add_host_phase(phase.name, phase.runs, phase.seconds, is_measured_ ? host_seconds(totals_->seconds, of) : 0);
      }
    }
  }

  void add_host_phase(std::string name, double runs, double predicted, double measured) {
    phases_.push_back({std::move(name), runs, {predicted_end_, predicted}, {measured_end_, measured}});
    predicted_end_ += predicted;
    measured_end_ += measured;
  }

  void add_program(const Phase& phase) {
    const train::JobProgram& one = nth(planned_.beside, phase.program);
    const Program& program = one.plan.program;
    const Timeline predicted = predicted_timeline(program, CostModel(one.graph, machine_));
    std::optional<Timeline> measured;
    if (is_measured_) measured = measured_timeline(program, nth(totals_->traces, phase.program));
    // Between the sections of a trace the host may have worked.
    const auto factors = [&](const Timeline& timeline, double seconds) {
      const std::vector<double> once(program.sections.size(), 1.0);
      const double run_seconds = stretched(program, timeline, 0, once).seconds;
      return std::vector<double>(once.size(), run_seconds > 0 ? seconds / run_seconds : 1);
    };
    const double seconds = is_measured_ ? mean(nth(totals_->program_seconds, phase.program)) : 0;
    PlacedPhase placed{phase.name, phase.runs, {predicted_end_}, {measured_end_}};
    add_part(one.graph, one.plan, predicted, factors(predicted, phase.seconds), measured,
             measured ? factors(*measured, seconds) : std::vector<double>());
    placed.predicted.seconds = predicted_end_ - placed.predicted.start;
    placed.measured.seconds = measured_end_ - placed.measured.start;
    phases_.push_back(std::move(placed));
  }

  void add_part(const Graph& graph, const Plan& plan, const Timeline& predicted, const std::vector<double>& factors,
                const std::optional<Timeline>& measured, const std::vector<double>& measured_factors) {
    const Program& program = plan.program;
    TimelinePart part{&graph, &program, stretched(program, predicted, predicted_end_, factors), std::nullopt};
    predicted_end_ = part.predicted.seconds;
    if (measured) {
      part.measured = stretched(program, *measured, measured_end_, measured_factors);
      measured_end_ = part.measured->seconds;
    }
    plans_.push_back(&plan);
    parts_.push_back(std::move(part));
  }

  // The passes over micro-batches, and the updates of the weights.
  void add_training() {
    const Graph& graph = planned_.training.graph;
    const Program& program = planned_.plan.program;
    const double micro_batches = generation().micro_batches,
                 updates = micro_batches / static_cast<double>(planned_.context.accumulation);
    std::vector<double> factors;
    for (const SectionRange& section : program.sections)
      factors.push_back(section.repeats == Repeats::kStep ? updates : micro_batches);
    const Span predicted{predicted_end_}, measured{measured_end_};
    const Timeline timeline = predicted_timeline(program, CostModel(graph, machine_));
    add_part(graph, planned_.plan, timeline, factors, is_measured_ ? std::optional(*training_) : std::nullopt, factors);
    const double update = begin_of_update(program, parts_.back().predicted),
                 measured_update = is_measured_ ? begin_of_update(program, *parts_.back().measured) : 0;
    phases_.push_back({"training",
                       micro_batches,
                       {predicted.start, update - predicted.start},
                       {measured.start, measured_update - measured.start}});
    phases_.push_back(
        {"update", updates, {update, predicted_end_ - update}, {measured_update, measured_end_ - measured_update}});
  }

  static double begin_of_update(const Program& program, const Timeline& timeline) {
    double begin = timeline.seconds;
    for (const SectionRange& section : program.sections) {
      if (section.repeats != Repeats::kStep) continue;
      for (int32_t i = section.begin; i < section.end; ++i) begin = std::min(begin, nth(timeline.times, i).start);
    }
    return begin;
  }

  [[nodiscard]] ordered_json phases_json() const {
    ordered_json json = ordered_json::array();
    for (const PlacedPhase& phase : phases_)
      json.push_back({{"name", phase.name},
                      {"runs", phase.runs},
                      {"predicted", span_json(phase.predicted)},
                      {"measured", is_measured_ ? span_json(phase.measured) : ordered_json(nullptr)}});
    return json;
  }

  // The memory that a program holds at its end stays until the next one begins.
  [[nodiscard]] ordered_json memory_json() const {
    ordered_json tiers = ordered_json::object();
    for (size_t tier = 0; tier < kBudgetedTiers; ++tier) {
      ordered_json curve = tier_json(static_cast<Tier>(tier));
      if (!curve["kinds"].empty()) tiers[std::string(name_of(static_cast<Tier>(tier)))] = std::move(curve);
    }
    return tiers;
  }

  [[nodiscard]] ordered_json tier_json(Tier tier) const {
    ordered_json json = {{"predicted_seconds", ordered_json::array()}};
    if (is_measured_) json["measured_seconds"] = ordered_json::array();
    std::array<std::vector<int64_t>, kMemoryClasses> kinds;
    for (size_t i = 0; i < parts_.size(); ++i) {
      const TimelinePart& part = parts_[i];
      const MemoryCurve curve = memory_over_step(*part.graph, plans_[i]->schedule, tier, kRoundMemoryPoints);
      const auto add_times = [&](const char* key, const Timeline& timeline) {
        const std::vector<double> clock = clock_of(*part.program, timeline);
        for (const int32_t step : curve.steps) json[key].push_back(nth(clock, step));
      };
      add_times("predicted_seconds", part.predicted);
      if (is_measured_) add_times("measured_seconds", *part.measured);
      for (const ClassBytes& bytes : curve.bytes) {
        for (size_t c = 0; c < kinds.size(); ++c) kinds[c].push_back(bytes[c]);
      }
    }
    json["kinds"] = ordered_json::object();
    for (size_t c = 0; c < kinds.size(); ++c) {
      if (std::any_of(kinds[c].begin(), kinds[c].end(), [](int64_t bytes) { return bytes > 0; }))
        json["kinds"][std::string(name_of(static_cast<MemoryClass>(c)))] = kinds[c];
    }
    return json;
  }

  const train::PlannedJob& planned_;
  const Machine& machine_;
  const Timeline* training_;
  const GenerationTotals* totals_;
  bool is_measured_;
  double predicted_end_ = 0, measured_end_ = 0;
  std::vector<PlacedPhase> phases_;
  std::vector<TimelinePart> parts_;  // of the phases that run a program
  std::vector<const Plan*> plans_;   // of the parts
};

}  // namespace

void add_round(GenerationTotals& totals, const train::PlannedJob& planned, std::span<const LaneProfile* const> lanes,
               std::span<const double> program_seconds) {
  totals.program_seconds.resize(lanes.size());
  totals.traces.resize(lanes.size());
  for (size_t i = 0; i < lanes.size(); ++i) {
    totals.program_seconds[i] += program_seconds[i];
    if (lanes[i] == nullptr || program_seconds[i] == 0) continue;
    const Program& program = planned.beside[i].plan.program;
    std::vector<LaneTime> times(program.instructions.size());
    (void)read_trace(*lanes[i], times);
    if (complete(program, times)) totals.traces[i] = std::move(times);
  }
}

ordered_json round_json(const train::PlannedJob& planned, const Machine& machine, const Timeline* training,
                        const GenerationTotals* totals) {
  return RoundPicture(planned, machine, training, totals).json();
}

}  // namespace spillway
