#include "objectives/steps/steps.h"

#include <algorithm>

#include "objectives/completions.h"
#include "ops/linear_cross_entropy/linear_cross_entropy.h"
#include "ops/matmul/matmul.h"
#include "ops/pointwise/pointwise.h"

namespace spillway::train {
namespace {

namespace pw = ops::pointwise;

constexpr int64_t kClasses = 2;
constexpr std::string_view kShare = "label_share";  // [1]: one over the labels of the micro-batch
constexpr std::string_view kUnit = "classes";       // [2, 2]: the unit matrix

void fill_typical_labels(const TensorView& view, const TypicalBatch&) {
  for (int64_t i = 0; i < view.elems(); ++i) view.as<int32_t>()[i] = static_cast<int32_t>(i % kClasses);
}
void fill_typical_share(const TensorView& view, const TypicalBatch& batch) {
  *view.as<float>() = 1.0f / static_cast<float>(batch.tokens);
}
void fill_unit(const TensorView& view, const TypicalBatch&) {
  for (int64_t i = 0; i < view.elems(); ++i) view.as<float>()[i] = i % (kClasses + 1) == 0 ? 1.0f : 0.0f;
}

class Steps final : public PreferenceObjective {
 public:
  using PreferenceObjective::PreferenceObjective;

  [[nodiscard]] bool is_sum_of_tokens() const override { return true; }
  [[nodiscard]] std::vector<LossColumn> columns() const override {
    return {{{"labels", fill_typical_labels}, i32_per_token},
            {{kShare, fill_typical_share},
             [](const Graph&, const ModelGraph&) {
               return ValueType{DType::kF32, {1}};
             }},
            {{kUnit, fill_unit}, [](const Graph&, const ModelGraph&) {
               return ValueType{DType::kF32, {kClasses, kClasses}};
             }}};
  }

  // A label is read at its own token, the last one of a step; it is not predicted by the token before.
  void fill(std::span<data::MicroBatch> streams, const data::RowTable& rows,
            std::span<const data::Piece> pieces) const override {
    data::MicroBatch& batch = streams[0];
    batch.clear();
    for (const data::Piece& piece : pieces) {
      add_sequence(batch, rows.ids(piece), {});
      const std::span<const int32_t> labels = rows.labels(piece);
      std::copy(labels.begin(), labels.end(), batch.labels.end() - std::ssize(labels));
      ++batch.rows;
    }
    batch.targets =
        std::ssize(batch.labels) - std::count(batch.labels.begin(), batch.labels.end(), data::kIgnoredLabel);
    batch.column(kShare) = {1.0f / static_cast<float>(std::max<int64_t>(1, batch.targets))};
    batch.column(kUnit) = {1, 0, 0, 1};
  }

  // As TRL 1.13's PRMTrainer. The logits are the input of the fused loss, which multiplies them with the unit matrix.
  [[nodiscard]] Loss append(Builder& builder, const ObjectiveInputs& in, ValueId scale) const override {
    const ModelGraph& model = in.model();
    const ValueId logits = ops::matmul(builder, model.hidden, model.head,
                                       {.transpose_b = true, .bias = model.head_bias, .out_dtype = DType::kF32});
    const bool is_training = in.gradients() != ops::LossGradients::kNone;
    const ops::CrossEntropy entropy = ops::linear_cross_entropy(
        builder, logits, in.column(kUnit), in.column("labels"), pw::mul(builder, scale, in.column(kShare)),
        is_training ? ops::LossGradients::kInput : ops::LossGradients::kNone);
    return {entropy.loss, {entropy.correct}};
  }

  [[nodiscard]] std::vector<std::string_view> metric_keys() const override { return {"loss", "accuracy"}; }
  void observe_rows(const Observation& seen, MetricSums& sums) const override {
    const auto labels = static_cast<double>(seen.streams[0].targets);
    if (labels > 0) sums.add_share("accuracy", seen.number(0) / labels, labels);
  }
};

}  // namespace

ObjectivePtr steps_objective(const config::PreferenceSettings& settings) { return std::make_shared<Steps>(settings); }

}  // namespace spillway::train
