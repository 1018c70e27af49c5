#include "objectives/flow/flow.h"

#include <algorithm>

#include "data/clips/clip_batch.h"
#include "ops/cast/cast.h"
#include "ops/mean_squared_error/mean_squared_error.h"
#include "ops/pointwise/pointwise.h"

namespace spillway::train {
namespace {

namespace pw = ops::pointwise;

void fill_typical(const TensorView& view, const TypicalBatch&) {
  for (int64_t i = 0; i < view.elems(); ++i) view.as<float>()[i] = static_cast<float>(i % 7) / 7;
}

ValueType like_prediction(const Graph& graph, const ModelGraph& model) {
  ValueType type = graph.value(model.hidden).type;
  type.dtype = DType::kF32;
  return type;
}

// Returns f32 with one number per clip, as many as the stream has room for.
ValueType f32_per_clip(const Graph& graph, const ModelGraph& model) {
  const auto offsets = std::find_if(model.columns.begin(), model.columns.end(),
                                    [](const BatchColumn& c) { return c.column.name == kSeqOffsets.name; });
  return {DType::kF32, {graph.value(offsets->value).type.shape[0] - 1}};
}

class Flow final : public Objective {
 public:
  Flow(bool preconditions, bool shows_prediction)
      : preconditions_(preconditions), shows_prediction_(shows_prediction) {}

  [[nodiscard]] std::string_view name() const override { return "flow matching"; }
  [[nodiscard]] bool is_sum_of_tokens() const override { return true; }
  [[nodiscard]] std::vector<LossColumn> columns() const override {
    return {{{data::kFlowTarget, fill_typical}, like_prediction}, {{data::kSigma, fill_typical}, f32_per_clip}};
  }

  [[nodiscard]] Loss append(Builder& builder, const ObjectiveInputs& in, ValueId scale) const override {
    const ValueId sigma = in.column(data::kSigma);
    const ValueId weights = preconditions_ ? pw::square(builder, sigma) : pw::affine(builder, sigma, 0, 1);
    const ops::SequenceErrors errors = ops::mean_squared_error(builder, in.model().hidden, in.column(data::kFlowTarget),
                                                               pw::mul(builder, weights, scale), in.sequence_offsets());
    Loss loss{errors.loss, {errors.of_each}};
    if (shows_prediction_ && in.gradients() == ops::LossGradients::kNone)
      loss.observed.push_back(ops::cast(builder, in.model().hidden, DType::kF32));
    return loss;
  }

  // `targets` counts clips.
  [[nodiscard]] float scale(const StepTotals& step) const override {
    return 1.0f / static_cast<float>(std::max<int64_t>(1, step.targets));
  }
  void observe(const Observation& seen, MetricSums& sums) const override {
    const auto clips = static_cast<double>(seen.streams[0].targets);
    if (clips > 0) sums.add("loss", seen.loss / clips, clips);
  }

 private:
  bool preconditions_, shows_prediction_;
};

}  // namespace

ObjectivePtr flow_objective(bool preconditions, bool shows_prediction) {
  return std::make_shared<Flow>(preconditions, shows_prediction);
}

}  // namespace spillway::train
