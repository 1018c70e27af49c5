#include "job/evaluation_graph.h"

namespace spillway::train {

EvaluationGraph build_evaluation_graph(const Model& model, const TrainingGraphOptions& options,
                                       const TrainingGraph& training) {
  EvaluationGraph result;
  result.graph.name = "evaluation";
  const ModelOptions without_dropout = options.model.without_dropout();
  ObjectiveBuilder objective(model, without_dropout, options.objective, options.reference, options.value);
  const Section evaluate{.name = "evaluate"};
  Builder builder(result.graph, objective.first_section(evaluate));
  builder.adopt(training.graph);
  objective.append_passes(builder, evaluate);
  result.evaluate = static_cast<SectionId>(result.graph.sections.size() - 1);
  const ModelGraph built = model.build(builder, without_dropout);
  const std::optional<ModelGraph> value = objective.append_value_model(builder);
  result.objective = objective.append_loss(builder, built, value, ops::LossGradients::kNone);
  return result;
}

}  // namespace spillway::train
