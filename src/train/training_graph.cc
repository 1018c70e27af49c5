#include "train/training_graph.h"

#include "graph/autodiff.h"
#include "model/modules.h"
#include "ops/add/add.h"
#include "ops/clip_factor/clip_factor.h"
#include "ops/linear_cross_entropy/linear_cross_entropy.h"
#include "ops/squared_norm/squared_norm.h"
#include "ops/zero/zero.h"

namespace spillway::train {
namespace {

class TrainingGraphBuilder {
 public:
  TrainingGraphBuilder(const ModelConfig& model, const TrainingGraphOptions& options)
      : model_(model), options_(options) {}

  TrainingGraph run() {
    result_.graph.name = "training";
    result_.decoder = build_decoder(b_, model_, options_.decoder);
    add_batch_values();
    add_states();
    const ValueId loss = add_loss();
    append_backward(b_, loss, gradients_, ops::add);
    b_.set_phase(Phase::kUpdate);
    add_update();
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool is_trained(ValueId weight) const {
    return graph().value(weight).kind == ValueKind::kTrainableWeight;
  }
  [[nodiscard]] const Graph& graph() const { return result_.graph; }

  ValueId scalar(const char* name, DType dtype) { return b_.input(name, {dtype, {1}}, ValueKind::kBatch); }

  void add_batch_values() {
    result_.labels = b_.input("batch.labels", {DType::kI32, {options_.decoder.tokens}, true}, ValueKind::kBatch);
    result_.loss_scale = scalar("batch.loss_scale", DType::kF32);
    result_.learning_rate = scalar("batch.learning_rate", DType::kF32);
    result_.step = scalar("batch.step", DType::kI32);
  }

  ValueId state(const char* prefix, ValueId weight, ValueKind kind) {
    const Value& w = graph().value(weight);
    const ValueId id = b_.input(fmt::format("{}.{}", prefix, w.name), {DType::kF32, w.type.shape}, kind);
    result_.graph.value(id).block = graph().value(weight).block;
    return id;
  }

  void add_states() {
    for (const ValueId weight : result_.decoder.trainable) {
      TrainedWeight t{.weight = weight};
      if (graph().value(weight).type.dtype != DType::kF32)
        t.master = state("master", weight, ValueKind::kOptimizerState);
      if (options_.optimizer == Optimizer::kAdamW) {
        t.m = state("exp_avg", weight, ValueKind::kOptimizerState);
        t.v = state("exp_avg_sq", weight, ValueKind::kOptimizerState);
      } else if (options_.sgd_momentum != 0) {
        t.momentum = state("momentum_buffer", weight, ValueKind::kOptimizerState);
      }
      if (options_.accumulates) t.accumulator = state("gradient", weight, ValueKind::kGradient);
      result_.trained.push_back(t);
      gradients_.push_back({.weight = weight, .dtype = gradient_dtype(weight), .accumulator = t.accumulator});
    }
  }

  // A sum over micro-steps needs f32, and so does what the fused loss sums over chunks. Otherwise the gradient of a
  // large bf16 matrix is rounded once, to bf16, as every framework keeps it; small ones stay f32.
  [[nodiscard]] DType gradient_dtype(ValueId weight) const {
    const Value& w = graph().value(weight);
    const bool summed = options_.accumulates || weight == result_.decoder.head || w.name == kEmbedding;
    return options_.decoder.lora || summed || w.type.shape.rank() < 2 ? DType::kF32 : w.type.dtype;
  }

  ValueId add_loss() {
    b_.set_phase(Phase::kForward);
    const ops::LossGradients wanted =
        is_trained(result_.decoder.head) ? ops::LossGradients::kInputAndWeight : ops::LossGradients::kInput;
    const ValueId loss = ops::linear_cross_entropy(b_, result_.decoder.hidden, result_.decoder.head, result_.labels,
                                                   result_.loss_scale, wanted);
    result_.loss_result = graph().results.size();
    b_.result(loss);
    return loss;
  }

  void add_update() {
    std::vector<ValueId> squares;
    for (const WeightGradient& g : gradients_) squares.push_back(ops::squared_norm(b_, g.gradient));
    const ops::ClipFactor clip = ops::clip_factor(b_, squares, options_.max_grad_norm);
    result_.norm_result = graph().results.size();
    b_.result(clip.norm);
    for (size_t i = 0; i < gradients_.size(); ++i) update(result_.trained[i], gradients_[i].gradient, clip.factor);
  }

  void update(const TrainedWeight& t, ValueId gradient, ValueId clip) {
    const double decay = has_weight_decay(graph().value(t.weight).name) ? options_.adamw.weight_decay : 0;
    if (options_.optimizer == Optimizer::kAdamW) {
      ops::AdamwOptions adamw = options_.adamw;
      adamw.weight_decay = decay;
      ops::adamw(b_, {t.weight, t.master, t.m, t.v, gradient, clip, result_.learning_rate, result_.step}, adamw);
    } else {
      ops::sgd(b_, {t.weight, t.master, t.momentum, gradient, clip, result_.learning_rate},
               {options_.sgd_momentum, decay});
    }
    if (t.accumulator != kNone) b_.update(gradient, ops::zero(b_, gradient));
  }

  const ModelConfig& model_;
  const TrainingGraphOptions& options_;
  TrainingGraph result_;
  Builder b_{result_.graph};
  std::vector<WeightGradient> gradients_;
};

}  // namespace

TrainingGraph build_training_graph(const ModelConfig& model, const TrainingGraphOptions& options) {
  return TrainingGraphBuilder(model, options).run();
}

}  // namespace spillway::train
