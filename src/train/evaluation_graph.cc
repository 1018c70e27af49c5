#include "train/evaluation_graph.h"

namespace spillway::train {

EvaluationGraph build_evaluation_graph(const Model& model, const TrainingGraphOptions& options,
                                       const TrainingGraph& training) {
  EvaluationGraph result;
  result.graph.name = "evaluation";
  Builder builder(result.graph, {.name = "evaluate"});
  builder.adopt(training.graph);
  ModelOptions without_dropout = options.model;
  if (without_dropout.lora) without_dropout.lora->dropout = 0;
  const ModelGraph built = model.build(builder, without_dropout);
  result.columns = built.columns;
  result.objective = append_objective(builder, *options.objective, built, ops::LossGradients::kNone);
  return result;
}

}  // namespace spillway::train
