#include "report/report_json.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/index.h"
#include "graph/operation.h"
#include "plan/moved_bytes.h"
#include "plan/plan_json.h"
#include "plan/shown_homes.h"
#include "report/memory_over_step.h"
#include "report/round_json.h"
#include "report/step_difference.h"
#include "report/timeline_json.h"
#include "runtime/timeline.h"

namespace spillway {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMemoryPoints = 600, kLossPoints = 1000;

ordered_json tiers_json(const train::PlannedJob& planned, const Executor* executor) {
  const Budget& budget = planned.context.budget;
  ordered_json tiers;
  for (size_t i = 0; i < kBudgetedTiers; ++i) {
    const auto tier = static_cast<Tier>(i);
    ordered_json& entry = tiers[std::string(name_of(tier))];
    entry = {{"budget_bytes", budget.of(tier).value_or(0)}, {"planned_peak_bytes", train::peak_bytes(planned, tier)}};
    if (planned.context.generation)
      entry["by_phase"] = {{"generation", planned.context.generation->peak_bytes[i]},
                           {"training", planned.plan.peaks[i].bytes}};
    entry["measured_peak_bytes"] = executor ? ordered_json(executor->measured_peak_bytes(tier)) : ordered_json(nullptr);
    if (planned.plan.peaks[i].bytes == 0) continue;
    entry["peak_at"] = describe_step(planned.training.graph, planned.plan.schedule, planned.plan.peaks[i].step);
  }
  return tiers;
}

ordered_json lanes_json(const Executor* executor) {
  ordered_json lanes;
  for (int i = 0; i < kLanes; ++i) {
    const auto lane = static_cast<Lane>(i);
    const LaneTotals totals = executor ? executor->lanes().totals(lane) : LaneTotals{};
    lanes[std::string(name_of(lane))] = {{"bytes", totals.bytes}, {"busy_seconds", totals.busy_seconds}};
  }
  return lanes;
}

ordered_json choices_json(const Graph& graph, const Choices& choices) {
  const ShownHomes homes = shown_homes(graph, choices);
  const std::string_view state = name_of(ValueKind::kOptimizerState);
  ordered_json blocks = ordered_json::array();
  for (size_t i = 0; i < choices.saved.size(); ++i) {
    const BlockHomes& block = homes.blocks[i];
    ordered_json saved;
    for (int group = 0; group < kSavedGroups; ++group) {
      const auto which = static_cast<SavedGroup>(group);
      saved[std::string(name_of(which))] = name_of(nth(choices.saved[i], which));
    }
    blocks.push_back({{"block", graph.blocks[i].name},
                      {"saved", saved},
                      {"frozen_weights", name_of(block.frozen)},
                      {"trainable_weights", name_of(block.trainable)},
                      {state, name_of(block.state.home)},
                      {"update", name_of(block.state.site)}});
    if (block.experts) blocks.back()["experts"] = name_of(*block.experts);
  }
  return {{"blocks", blocks},
          {"outer_weights", name_of(homes.outer_weights)},
          {"tables", name_of(homes.tables)},
          {"gradients", name_of(homes.gradients)},
          {state, name_of(homes.state.home)},
          {"update", name_of(homes.state.site)}};
}

ordered_json moved_json(const Graph& graph, const Program& program, const PlanContext& context) {
  const MovedBytes moved = moved_bytes(graph, program, context);
  ordered_json rows = ordered_json::array();
  for (int c = 0; c < kMemoryClasses; ++c) {
    ordered_json row = {{"kind", name_of(static_cast<MemoryClass>(c))}};
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const int64_t bytes = nth(moved[lane], c);
      if (bytes > 0) row[std::string(name_of(static_cast<Lane>(lane)))] = bytes;
    }
    if (row.size() > 1) rows.push_back(std::move(row));
  }
  return rows;
}

ordered_json memory_json(const train::PlannedJob& planned, const Timeline& predicted,
                         const std::optional<Timeline>& measured) {
  const Plan& plan = planned.plan;
  const std::vector<double> predicted_clock = clock_of(plan.program, predicted);
  const std::vector<double> measured_clock = measured ? clock_of(plan.program, *measured) : std::vector<double>();
  ordered_json tiers;
  for (size_t i = 0; i < kBudgetedTiers; ++i) {
    if (plan.peaks[i].bytes == 0) continue;
    const auto tier = static_cast<Tier>(i);
    const MemoryCurve curve = memory_over_step(planned.training.graph, plan.schedule, tier, kMemoryPoints);
    ordered_json& entry = tiers[std::string(name_of(tier))];
    for (const int32_t step : curve.steps) {
      entry["predicted_seconds"].push_back(nth(predicted_clock, step));
      if (measured) entry["measured_seconds"].push_back(nth(measured_clock, step));
    }
    for (size_t c = 0; c < kMemoryClasses; ++c) {
      const bool is_used =
          std::any_of(curve.bytes.begin(), curve.bytes.end(), [&](const ClassBytes& bytes) { return bytes[c] > 0; });
      if (!is_used) continue;
      ordered_json& kind = entry["kinds"][std::string(name_of(static_cast<MemoryClass>(c)))];
      for (const ClassBytes& bytes : curve.bytes) kind.push_back(bytes[c]);
    }
  }
  return tiers;
}

ordered_json losses_json(const std::vector<LossPoint>& curve) {
  ordered_json points = ordered_json::array();
  for (const LossPoint& point : thinned(curve, kLossPoints)) points.push_back({point.step, point.loss});
  return points;
}

ordered_json points_json(const MetricCurve& curve) {
  ordered_json points = ordered_json::array();
  for (const MetricCurve::Point& point : curve.points()) points.push_back({point.step, point.value});
  return points;
}

ordered_json metrics_json(const MetricCurves& metrics) {
  ordered_json all = ordered_json::array();
  for (const MetricCurves::Metric& one : metrics.all()) {
    all.push_back({{"name", one.name},
                   {"is_share", one.is_share},
                   {"training", points_json(one.training)},
                   {"evaluation", points_json(one.evaluation)}});
  }
  return all;
}

// The arithmetic of matrix products that one micro-batch costs by its operations' own account.
double flops_per_micro_step(const Graph& graph, const Program& program) {
  double sum = 0;
  for (const SectionRange& section : program.sections) {
    if (section.repeats == Repeats::kStep) continue;
    for (int32_t i = section.begin; i < section.end; ++i) {
      const Instruction& instruction = nth(program.instructions, i);
      if (instruction.kind != Instruction::Kind::kRun) continue;
      const Cost cost = cost_of(graph, instruction.op);
      sum += cost.matrix_product ? cost.flops : 0;
    }
  }
  return sum;
}

// The experts of a run: those that its tokens reached, and what was loaded of them; null for a model without.
ordered_json experts_json(const train::PlannedJob& planned, const Executor& executor, const RunRecord& record) {
  const std::optional<ExpertLoads> loaded =
      expert_loads(planned.training.graph, planned.plan.program, executor, record.expert_loads_before());
  if (!loaded) return nullptr;
  const std::optional<int64_t> reached = record.experts_reached();
  return {{"reached", reached ? ordered_json(*reached) : ordered_json(nullptr)},
          {"loads", loaded->loads},
          {"load_bytes", loaded->bytes},
          {"host_computed", 0}};  // as their products run on the device
}

// The predicted numbers of a round, before a run; null where nothing is generated.
ordered_json planned_generation_json(const train::PlannedJob& planned) {
  if (!planned.context.generation) return nullptr;
  return generation_json(planned.context, planned.plan.simulation);
}

// The parts that are equal before and after a run, but for what `executor` has measured.
ordered_json report_of(const train::PlannedJob& planned, const Machine& machine, const Executor* executor,
                       const std::optional<Timeline>& measured, const GenerationTotals* rounds) {
  const Graph& graph = planned.training.graph;
  const Plan& plan = planned.plan;
  const PlanContext& context = planned.context;
  const Timeline predicted = predicted_timeline(plan.program, CostModel(graph, machine));
  ordered_json report = {{"title", planned.context.title},
                         {"state", nullptr},
                         {"tiers", tiers_json(planned, executor)},
                         {"process", nullptr},
                         {"lanes", lanes_json(executor)},
                         {"step",
                          {{"predicted_seconds", context.step_seconds(plan.simulation)},
                           {"median_seconds", nullptr},
                           {"compute_stall_seconds", nullptr}}},
                         {"tokens_per_second", nullptr},
                         {"steps", 0},
                         {"micro_steps_per_step", context.runs_per_step(Repeats::kMicroBatch)},
                         {"tokens_per_micro_step", graph.tokens() * context.group},
                         {"planned_flops_per_micro_step", flops_per_micro_step(graph, plan.program)},
                         {"operations", ordered_json::array()}};
  if (const int64_t bytes = planned.context.process_bytes; bytes > 0)
    report["process"] = {{"predicted_rss_bytes", bytes}};
  report["choices"] = choices_json(graph, plan.choices);
  report["moved_bytes_per_step"] = moved_json(graph, plan.program, context);
  report["frontier"] = frontier_json(planned.context);
  report["loss"] = ordered_json::array();
  report["eval_loss"] = ordered_json::array();
  for (const char* curve : {"learning_rate", "grad_norm", "step_tokens_per_second", "metrics"})
    report[curve] = ordered_json::array();
  report["samples"] = ordered_json::array();
  report["loss_by_timestep"] = ordered_json::array();
  report["layer_draws"] = ordered_json::array();
  report["generation"] = planned_generation_json(planned);
  report["memory_over_step"] = memory_json(planned, predicted, measured);
  report["timeline"] = timeline_json(graph, plan.program, predicted, measured);
  report["round"] = nullptr;
  if (context.generation) report["round"] = round_json(planned, machine, measured ? &*measured : nullptr, rounds);
  return report;
}

void add_facts(ordered_json& report, const RunFacts& facts) {
  report["state"] = facts.state;
  report["started"] = facts.started;
  report["step_now"] = facts.step;
  report["total_steps"] = facts.total_steps;
  report["cpu_share"] = facts.cpu_share ? ordered_json(*facts.cpu_share) : ordered_json(nullptr);
  ordered_json overrides = ordered_json::array();
  for (const auto& [key, value] : facts.overrides) overrides.push_back({key, value});
  report["config"] = {{"text", facts.config}, {"overrides", std::move(overrides)}};
}

ComparedSteps compared_steps(const train::PlannedJob& planned, const Machine& machine,
                             const train::TrainingOutcome& outcome, const RunRecord& record,
                             std::optional<double> cpu_share) {
  const PlanContext& context = planned.context;
  const double steps = static_cast<double>(std::max<int64_t>(1, outcome.steps));
  return {.predicted_seconds = context.step_seconds(planned.plan.simulation),
          .measured_seconds = outcome.median_step_seconds,
          .predicted_stall_seconds = context.stall_seconds(planned.plan.simulation),
          .measured_stall_seconds = record.stall_seconds() / steps,
          .planned_tokens = static_cast<double>(context.micro_batches_of_all() * planned.training.graph.tokens()),
          .mean_tokens = static_cast<double>(outcome.tokens) / steps,
          .cpu_share = cpu_share.value_or(1),
          .cpu_share_when_measured = std::min(machine.cpu_shares.rates, machine.cpu_shares.disks),
          .has_other_ranks = context.ranks > 1};
}

}  // namespace

int64_t outside_arenas_bytes(const train::PlannedJob& planned, const Machine& machine, int64_t peak_rss) {
  const int64_t host = train::arena_bytes(planned, Tier::kHost);
  const bool device_is_host = machine.device == DeviceKind::kCpu;
  return peak_rss - host - (device_is_host ? train::arena_bytes(planned, Tier::kDevice) : 0);
}

ordered_json plan_report(const train::PlannedJob& planned, const Machine& machine) {
  ordered_json report = report_of(planned, machine, nullptr, std::nullopt, nullptr);
  if (planned.plan.fits) return report;
  const ordered_json plan = plan_json(planned.training.graph, planned.plan, planned.context);
  report["shortage"] = {{"missing", plan["missing"]}, {"nearest", plan["nearest"]}};
  return report;
}

ordered_json run_report(const train::PlannedJob& planned, const Machine& machine, const Executor& executor,
                        const train::TrainingOutcome& outcome, const RunRecord& record, int64_t peak_rss,
                        const RunFacts& facts) {
  std::optional<Timeline> measured;
  if (record.traced_step() != 0) measured = measured_timeline(planned.plan.program, record.trace());
  ordered_json report = report_of(planned, machine, &executor, measured, &record.generation());
  if (measured) report["timeline"]["measured"]["step"] = record.traced_step();
  for (size_t i = 0; i < kBudgetedTiers; ++i) {
    ordered_json& peak = report["tiers"][std::string(name_of(static_cast<Tier>(i)))]["measured_peak_bytes"];
    peak = std::max(peak.get<int64_t>(), record.measured_peaks()[i]);
  }
  report["process"]["peak_rss_bytes"] = peak_rss;
  report["process"]["outside_arenas_bytes"] = outside_arenas_bytes(planned, machine, peak_rss);
  report["process"]["device_library_bytes"] = executor.device().library_bytes();
  report["step"]["median_seconds"] = outcome.median_step_seconds;
  report["step"]["mean_seconds"] =
      outcome.steps > 0 ? outcome.step_seconds_sum / static_cast<double>(outcome.steps) : 0.0;
  report["step"]["compute_stall_seconds"] =
      outcome.steps > 0 ? record.stall_seconds() / static_cast<double>(outcome.steps) : 0.0;
  report["tokens_per_second"] =
      outcome.step_seconds_sum > 0 ? static_cast<double>(outcome.tokens) / outcome.step_seconds_sum : 0.0;
  report["steps"] = outcome.steps;
  add_facts(report, facts);
  report["step"]["differs_because"] =
      reasons_of_difference(compared_steps(planned, machine, outcome, record, facts.cpu_share));
  report["ended_early"] = outcome.ended_early.empty() ? ordered_json(nullptr) : ordered_json(outcome.ended_early);
  report["weights_of_step"] = outcome.loaded_step > 0 ? outcome.loaded_step : outcome.first_step + outcome.steps;
  report["final_evaluation"] = nullptr;
  for (const train::KeptMetric& metric : outcome.final_evaluation)
    report["final_evaluation"][fmt::format("eval_{}", metric.key)] = metric.value;
  for (const OperationTime& time :
       time_by_operation(planned.training.graph, planned.plan.program, executor, record.operations_before()))
    report["operations"].push_back({{"name", time.name}, {"calls", time.calls}, {"seconds", time.seconds}});
  if (const ordered_json experts = experts_json(planned, executor, record); !experts.is_null())
    report["experts"] = experts;
  for (const train::LayerDraw& draw : record.draws())
    report["layer_draws"].push_back({{"from_step", draw.first_step + 1}, {"layers", draw.numbers}});
  report["loss"] = losses_json(record.losses());
  report["eval_loss"] = losses_json(record.evaluations());
  report["learning_rate"] = points_json(record.curves().learning_rate);
  report["grad_norm"] = points_json(record.curves().grad_norm);
  report["step_tokens_per_second"] = points_json(record.curves().tokens_per_second);
  report["metrics"] = metrics_json(record.metrics());
  if (!record.loss_by_timestep().empty()) {
    constexpr int64_t kWidth = 1000 / int64_t{LossByTimestep::kParts};
    int64_t from = 0;
    for (const LossByTimestep::Part& part : record.loss_by_timestep().parts()) {
      report["loss_by_timestep"].push_back(
          {{"from", from}, {"to", from + kWidth}, {"loss", part.loss}, {"samples", part.samples}});
      from += kWidth;
    }
  }
  for (const SamplePoint& sample : record.samples())
    report["samples"].push_back({{"step", sample.step},
                                 {"prompt", sample.prompt},
                                 {"text", sample.text},
                                 {"reward", sample.reward ? ordered_json(*sample.reward) : ordered_json(nullptr)},
                                 {"pictures", sample.pictures}});
  if (const GenerationTotals& made = record.generation(); made.rounds > 0) {
    ordered_json& generation = report["generation"];
    generation["rounds"] = made.rounds;
    generation["tokens"] = made.tokens;
    generation["seconds"] = made.seconds;
    generation["tokens_per_second"] = made.seconds > 0 ? static_cast<double>(made.tokens) / made.seconds : 0.0;
    generation["reward_seconds"] = made.reward_seconds;
    generation["bytes_streamed"] = made.bytes_streamed;
  }
  return report;
}

std::string print_report(const ordered_json& report) {
  constexpr auto kReplace = ordered_json::error_handler_t::replace;
  constexpr std::string_view kCompact[] = {"loss",     "eval_loss", "metrics",       "memory_over_step",
                                           "timeline", "round",     "rank_timelines"};
  std::string text = "{";
  for (const auto& [key, value] : report.items()) {
    const bool is_compact = std::find(std::begin(kCompact), std::end(kCompact), key) != std::end(kCompact);
    text += text.size() == 1 ? "\n  " : ",\n  ";
    text += ordered_json(key).dump() + ": ";
    for (const char c : value.dump(is_compact ? -1 : 2, ' ', false, kReplace)) {
      text += c;
      if (c == '\n') text += "  ";
    }
  }
  return text + "\n}\n";
}

}  // namespace spillway
