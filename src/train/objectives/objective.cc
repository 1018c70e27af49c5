#include "train/objectives/objective.h"

namespace spillway::train {

ValueType i32_per_token(const Graph& graph, const ModelGraph&) { return {DType::kI32, {graph.tokens()}, kTokenAxis}; }

AppendedObjective append_objective(Builder& builder, const Objective& objective, const ModelGraph& model,
                                   ops::LossGradients gradients) {
  AppendedObjective result{.objective = &objective};
  for (const LossColumn& c : objective.columns)
    (void)add_column(builder, c.column, c.type(builder.graph(), model), result.columns);
  result.scale = builder.input("batch.loss_scale", {DType::kF32, {1}}, ValueKind::kBatch);
  const Loss loss = objective.append(
      builder, {.model = model, .columns = result.columns, .scale = result.scale, .gradients = gradients});
  result.loss = loss.loss;
  result.loss_result = builder.graph().results.size();
  result.sums = loss.sums.size();
  builder.result(loss.loss);
  for (const ValueId sum : loss.sums) builder.result(sum);
  return result;
}

}  // namespace spillway::train
