#include "objectives/distillation/distillation.h"

#include <algorithm>

#include "ops/linear_distillation/linear_distillation.h"

namespace spillway::train {
namespace {

constexpr std::string_view kDivergence = "kd_loss", kCrossEntropy = "ce_loss", kAccuracy = "mean_token_accuracy";

class Distillation final : public Objective {
 public:
  explicit Distillation(const config::DistillationSettings& settings) : settings_(settings) {}

  [[nodiscard]] std::string_view name() const override { return "kd"; }
  [[nodiscard]] bool is_sum_of_tokens() const override { return true; }

  void fill(std::span<data::MicroBatch> streams, const data::RowTable& rows,
            std::span<const data::Piece> pieces) const override {
    data::fill_micro_batch(streams[0], rows, pieces);
  }
  [[nodiscard]] std::vector<LossColumn> columns() const override {
    return {{{"labels", fill_typical_ids}, i32_per_token}};
  }

  // The loss reads what the teacher computes for each token (ObjectiveInputs::reference_model), so that there are no
  // scores.
  [[nodiscard]] std::vector<ScorePass> passes() const override { return {{.section = "teacher"}}; }
  [[nodiscard]] std::vector<ValueId> append_scores(Builder&, const ScorePass&, const ObjectiveInputs&) const override {
    return {};
  }

  [[nodiscard]] Loss append(Builder& builder, const ObjectiveInputs& in, ValueId scale) const override {
    const ModelGraph &model = in.model(), &teacher = in.reference_model();
    const ops::Distillation outputs = ops::linear_distillation(builder,
                                                               {.x = model.hidden,
                                                                .w = model.head,
                                                                .teacher_x = teacher.hidden,
                                                                .teacher_w = teacher.head,
                                                                .labels = in.column("labels"),
                                                                .scale = scale},
                                                               in.gradients(),
                                                               {.temperature = settings_.kd_temperature,
                                                                .divergence_weight = settings_.kd_alpha,
                                                                .cross_entropy_weight = settings_.kd_ce_alpha,
                                                                .logit_cap = model.logit_cap,
                                                                .teacher_logit_cap = teacher.logit_cap});
    return {outputs.loss, {outputs.divergence, outputs.cross_entropy, outputs.correct}};
  }

  [[nodiscard]] float scale(const StepTotals& step) const override {
    return 1.0f / static_cast<float>(std::max<int64_t>(1, step.targets));
  }
  void observe(const Observation& seen, MetricSums& sums) const override {
    const auto targets = static_cast<double>(seen.streams[0].targets);
    if (targets == 0) return;
    sums.add("loss", seen.loss / targets, targets);
    sums.add(kDivergence, seen.number(0) / targets, targets);
    sums.add(kCrossEntropy, seen.number(1) / targets, targets);
    sums.add(kAccuracy, seen.number(2) / targets, targets);
  }
  [[nodiscard]] std::vector<std::string_view> metric_keys() const override {
    return {"loss", kDivergence, kCrossEntropy, kAccuracy};
  }

 private:
  config::DistillationSettings settings_;
};

}  // namespace

ObjectivePtr distillation_objective(const config::DistillationSettings& settings) {
  return std::make_shared<Distillation>(settings);
}

}  // namespace spillway::train
