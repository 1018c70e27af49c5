#include "train/objectives/objective.h"

#include <string>

namespace spillway::train {

AppendedObjective append_objective(Builder& builder, const Objective& objective, const Decoder& model,
                                   ops::LossGradients gradients) {
  AppendedObjective result{.objective = &objective};
  const int64_t tokens = builder.graph().tokens;
  for (const Column& column : objective.columns) {
    result.columns.push_back(
        builder.input("batch." + std::string(column.name), {DType::kI32, {tokens}, true}, ValueKind::kBatch));
  }
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
