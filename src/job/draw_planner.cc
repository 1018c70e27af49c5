#include "job/draw_planner.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "graph/builder.h"
#include "graph/verify.h"

namespace spillway::train {
namespace {

// The share of what a plan places anew in each draw that others may take more, for gaps between it.
constexpr int64_t kPartForGaps = 64;

// Returns the first draws of the run, and others that have each layer at least once.
std::vector<std::vector<int64_t>> planned_draws(const Job& job, int64_t layers) {
  constexpr int64_t kFirst = 16;
  std::vector<std::vector<int64_t>> draws;
  const int64_t drawn = std::ssize(job.graph.drawn->numbers);
  if (const std::optional<LayerDraws> of_run = layer_draws(job)) {
    draws.push_back(of_run->at(1).numbers);
    for (int64_t i = 0; i < kFirst; ++i) draws.push_back(of_run->at(i * job.config.model.lisa->interval).numbers);
  }
  for (int64_t end = layers; end > 0; end -= drawn) {
    std::vector<int64_t>& draw = draws.emplace_back();
    for (int64_t i = std::max<int64_t>(0, end - drawn); std::ssize(draw) < drawn; ++i) draw.push_back(i);
  }
  return draws;
}

// Returns the budget, and no more of a tier than the plan takes of it.
Budget within(const Plan& plan, const Budget& budget) {
  const auto least = [&](Tier tier) {
    const int64_t taken = nth(plan.peaks, tier).bytes;
    return std::min(budget.of(tier).value_or(taken), taken);
  };
  return {.device = least(Tier::kDevice), .host = least(Tier::kHost), .disk = least(Tier::kDisk)};
}

}  // namespace

DrawPlanner::DrawPlanner(const PlanningInputs& inputs, const PlannedJob& planned)
    : model_(inputs.job.model),
      options_(inputs.job.graph),
      machine_(std::make_shared<const Machine>(inputs.machine)),
      choices_(planned.plan.choices) {
  if (planned.context.group != options_.micro_batches) options_ = graph_options(inputs.job, planned.context.group);
  const Graph& first = planned.training.graph;
  Builder(homes_).adopt(first);
  Builder(wholes_).adopt(planned.training.adopted());
  own_files_ = inputs.policy.own_files;
  own_files_.held = adopted_flags(own_files_.held, first, homes_);
  needs_.add(planned.plan.program);
  const int64_t layers = count_layers(planned.training.model.parameters, options_.drawn->list);
  for (const std::vector<int64_t>& draw : planned_draws(inputs.job, layers)) {
    Plan other = plan(draw, within(planned.plan, inputs.budget)).plan;
    if (!other.fits) other = plan(draw, inputs.budget).plan;
    needs_.add(other.program);
  }
  add_gaps(planned.plan, inputs.budget);
}

// Makes room for draws whose values leave larger gaps than those that were planned, where the budget has it.
void DrawPlanner::add_gaps(const Plan& plan, const Budget& budget) {
  std::array<int64_t, kTiers> homes{};
  for (const Operand& home : plan.program.homes)
    nth(homes, home.place.tier) = std::max(nth(homes, home.place.tier), home.place.offset + home.place.bytes);
  for (const Tier tier : kEachBudgetedTier) {
    int64_t& bytes = nth(needs_.arena_bytes, tier);
    const int64_t more = bytes + (bytes - nth(homes, tier)) / kPartForGaps;
    bytes = std::max(bytes, std::min(more, budget.of(tier).value_or(more)));
  }
}

PlannedDraw DrawPlanner::plan(const std::vector<int64_t>& layers, const Budget& room) const {
  TrainingGraphOptions options = options_;
  options.drawn->numbers = layers;
  PlannedDraw result{.training = build_training_graph(*model_, options, wholes_), .plan = {}};
  const std::vector<std::string> violations = verify(result.training.graph);
  SPILLWAY_CHECK(violations.empty(), "the graph of a draw is wrong: {}", violations.front());
  result.plan = make_plan_of_variant(homes_, choices_, result.training.graph, *machine_, room, own_files_);
  return result;
}

void plan_draws(const PlanningInputs& inputs, PlannedJob& planned) {
  planned.draws.reset();
  if (!inputs.job.graph.drawn || !planned.plan.fits) return;
  const auto draws = std::make_shared<const DrawPlanner>(inputs, planned);
  PlanContext::Program& beside = planned.context.beside.emplace_back();
  beside.name = "the layers of other draws";
  for (size_t i = 0; i < kBudgetedTiers; ++i) beside.bytes[i] = draws->needs().arena_bytes[i];
  planned.draws = draws;
}

}  // namespace spillway::train
