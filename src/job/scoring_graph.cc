#include "job/scoring_graph.h"

namespace spillway::train {

ScoringGraph build_scoring_graph(const Model& model, const TrainingGraphOptions& options,
                                 const TrainingGraph& training) {
  ScoringGraph result;
  result.graph.name = "reference";
  ReferenceOptions reference = options.reference;
  // Before the first step the weights in training are those of the reference.
  if (reference.is_precomputed && !reference.other) reference.model->copies.clear();
  ObjectiveBuilder objective(model, options.model, options.objective, reference, options.value);
  Section first;
  for (const ScorePass& pass : objective.known_passes()) {
    if (result.scores.empty()) first.name = pass.section;
    result.scores.insert(result.scores.end(), pass.scores.begin(), pass.scores.end());
  }
  Builder builder(result.graph, first);
  builder.adopt(training.graph);
  result.objective = objective.append_known(builder);
  return result;
}

}  // namespace spillway::train
