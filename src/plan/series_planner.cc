#include "plan/series_planner.h"

#include <iterator>
#include <tuple>
#include <utility>

#include "base/index.h"
#include "base/parallel.h"
#include "graph/operation.h"
#include "plan/plan_search.h"
#include "plan/proposals.h"
#include "plan/run_all.h"

namespace spillway {

SeriesPlanner::SeriesPlanner(const Graph& graph, const Machine& machine, Policy policy, int64_t accumulation)
    : policy_(std::move(policy)), builders_(graph, machine, policy_.own_files), accumulation_(accumulation) {}

double SeriesPlanner::computing_seconds() const {
  const Graph& graph = builders_.whole().graph();
  double sum = 0;
  for (OpId id = 0; id < std::ssize(graph.ops); ++id) {
    const bool computes = graph.op(id).def->collective == nullptr && !may_run_on_host(graph, id);
    if (computes && graph.section_of(graph.op(id)).repeats == Repeats::kMicroBatch)
      sum += builders_.whole().costs().operation_seconds(id, Lane::kCompute);
  }
  return static_cast<double>(accumulation_) * sum;
}

SeriesPlanner::Outlook SeriesPlanner::outlook(const Budget& budget) {
  PlanCandidates candidates(builders_.of_search(), accumulation_, known_);
  PlanProposals proposals(candidates, budget, policy_);
  Outlook best;
  const auto take = [&](const std::vector<PlanProposals::Proposal>& among) {
    for (const PlanProposals::Proposal& proposal : among) {
      if (std::tie(proposal.distance, proposal.seconds) < std::tie(best.missing_bytes, best.seconds))
        best = {proposal.distance, proposal.seconds};
    }
  };
  take(proposals.all(proposals.saved_settings()));
  if (best.missing_bytes == 0) take(proposals.alternations(best.seconds));
  return best;
}

std::vector<Found> SeriesPlanner::coarse_plans(std::span<const Budget> budgets) {
  std::vector<Found> plans(budgets.size());
  run_all(std::ssize(budgets), available_cpus(), [&](int64_t i) {
    PlanCandidates candidates(builders_.of_search(), accumulation_, known_);
    nth(plans, i) = search_plan(candidates, nth(budgets, i), policy_, SearchEffort::kCoarse, found_);
  });
  return plans;
}

Plan SeriesPlanner::plan(const Budget& budget) {
  KnownPlans known_apart;
  const auto search = [&](const PlanBuilder& builder, const Budget& room) {
    PlanCandidates candidates(builder, accumulation_, &builder == &builders_.of_search() ? known_ : known_apart);
    return search_plan(candidates, room, policy_, SearchEffort::kQuick, found_);
  };
  Plan plan = builders_.plan_of(search, budget);
  if (plan.fits) found_.push_back(plan.choices);
  return plan;
}

}  // namespace spillway
