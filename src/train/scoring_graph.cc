#include "train/scoring_graph.h"

namespace spillway::train {

ScoringGraph build_scoring_graph(const Model& model, const TrainingGraphOptions& options,
                                 const TrainingGraph& training) {
  ScoringGraph result;
  result.graph.name = "reference";
  ReferenceOptions reference = options.reference;
  if (!reference.other) reference.model->copies.clear();
  ObjectiveBuilder objective(model, options.model, options.objective, reference);
  Section first;
  for (const ScorePass& pass : options.objective->passes()) {
    if (!pass.is_reference) continue;
    if (result.scores.empty()) first.name = pass.section;
    result.scores.insert(result.scores.end(), pass.scores.begin(), pass.scores.end());
  }
  Builder builder(result.graph, first);
  builder.adopt(training.graph);
  result.objective = objective.append_reference(builder);
  return result;
}

}  // namespace spillway::train
