#include "plan/series_planner.h"

#include <iterator>
#include <tuple>
#include <utility>

#include "graph/operation.h"
#include "plan/plan_search.h"
#include "plan/proposals.h"

namespace spillway {

SeriesPlanner::SeriesPlanner(const Graph& graph, const Machine& machine, Policy policy, int64_t accumulation)
    : policy_(std::move(policy)), builder_(graph, machine, policy_.own_files), accumulation_(accumulation) {}

double SeriesPlanner::computing_seconds() const {
  const Graph& graph = builder_.graph();
  double sum = 0;
  for (OpId id = 0; id < std::ssize(graph.ops); ++id) {
    if (graph.section_of(graph.op(id)).repeats == Repeats::kMicroBatch && !may_run_on_host(graph, id))
      sum += builder_.costs().operation_seconds(id, Lane::kCompute);
  }
  return static_cast<double>(accumulation_) * sum;
}

SeriesPlanner::Outlook SeriesPlanner::outlook(const Budget& budget) {
  PlanCandidates candidates(builder_, accumulation_, known_);
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

Plan SeriesPlanner::plan(const Budget& budget, SearchEffort effort) {
  PlanCandidates candidates(builder_, accumulation_, known_);
  const Found found = search_plan(candidates, budget, policy_, effort, found_);
  if (found.fits) found_.push_back(found.choices);
  Plan plan = builder_.build(found.choices, found.effort);
  compare_with(plan, budget);
  return plan;
}

}  // namespace spillway
