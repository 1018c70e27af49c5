// Builds an objective into a graph: the passes that score rows, in sections of their own, and the loss after the
// model's forward pass. Training and evaluation use the same code.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "objectives/objective.h"

namespace spillway::train {

// The reference model of an objective.
struct ReferenceOptions {
  // The options with which the reference pass builds its model: without the adapter that is trained, or with frozen
  // copies of the trained weights.
  std::optional<ModelOptions> model;
  // The reference model; null if it is the one in training. All weights of another model are copies.
  ModelPtr other;
  // True if the scores of the reference are columns of the batch, known before the first step (job/programs.h). There
  // are no copies then.
  bool is_precomputed = false;
  // True if the copies follow the policy (sync_ref_model); they are part of a run's state then.
  bool is_synced = false;
};

// A model that the objective reads and trains beside the main one, as PPO's value model. It has its own weights; the
// names of their values begin with ModelOptions::prefix.
struct ValueModel {
  std::string folder;  // of its weights
  ModelPtr model;
  ModelOptions options;
};

// The section of a pass, before the forward section.
struct PassSection {
  SectionId section = 0;
  int stream = 0;
  size_t scores = 0;  // how many it has
};

// The values of a micro-batch that the host writes and reads.
struct MicroBatchValues {
  std::vector<BatchColumn> columns;    // all that the graph reads, those of its models included
  ValueId scale = kNone;               // batch value, f32 [1]
  ValueId router_loss_weight = kNone;  // batch value, f32 [1], of a mixture that has the loss
  ValueId dropout_seed = kNone;        // as ModelGraph's, of a graph in training
  ValueId fake_quantises = kNone;      // the same
  size_t loss_result = 0;              // into Graph::results; those observed follow
  AxisId tokens = kTokenAxis, rows = kRowAxis;

  // Returns the batch values that the host fills for this micro-batch alone.
  [[nodiscard]] std::vector<ValueId> inputs() const {
    std::vector<ValueId> result;
    for (const BatchColumn& column : columns) result.push_back(column.value);
    for (const ValueId value : {scale, router_loss_weight, dropout_seed, fake_quantises})
      if (value != kNone) result.push_back(value);
    return result;
  }
};

struct AppendedObjective : MicroBatchValues {
  ObjectivePtr objective;
  std::vector<PassSection> passes;
  ParameterTable copies;  // that the reference reads: of weights that are trained, or all of another model
  bool copies_change = false;
  ValueId loss = kNone;
  size_t observed = 0;  // the number of results behind the loss: the objective's, and the model's metrics behind them
  std::vector<ModelMetric> model_metrics;  // the latter
};

// Appends an objective to a graph in the order of its sections: passes, then `forward`.
class ObjectiveBuilder {
 public:
  // Borrows its arguments. `options` are those of the forward pass and of passes that use the weights in training. The
  // reference and passes that run before training have no dropout.
  ObjectiveBuilder(const Model& model, const ModelOptions& options, ObjectivePtr objective,
                   const ReferenceOptions& reference, const std::optional<ValueModel>& value);

  // Returns the section that the graph's builder must begin with.
  [[nodiscard]] Section first_section(const Section& forward) const;
  // Appends the passes, and begins the forward section if there are any.
  void append_passes(Builder& builder, const Section& forward);
  // Appends only the passes that run before training. Their scores are the graph's results, in order.
  [[nodiscard]] AppendedObjective append_known(Builder& builder);
  // Returns the passes that append_known() appends.
  [[nodiscard]] std::vector<ScorePass> known_passes() const;
  // Appends the value model's forward operations after those of the model. Returns nothing if there is no value model.
  [[nodiscard]] std::optional<ModelGraph> append_value_model(Builder& builder);
  // Appends columns, loss and results. `value` is the return value of append_value_model().
  [[nodiscard]] AppendedObjective append_loss(Builder& builder, const ModelGraph& model,
                                              const std::optional<ModelGraph>& value, ops::LossGradients gradients);

 private:
  [[nodiscard]] bool is_known(const ScorePass& pass) const {
    return pass.is_run_before || (pass.by == ScoredBy::kReference && reference_.is_precomputed);
  }
  void keep_copies(Builder& builder);
  [[nodiscard]] std::vector<ScorePass> passes_to_run() const;
  [[nodiscard]] ModelGraph build_for(Builder& builder, const ScorePass& pass) const;
  void append_pass(Builder& builder, const ScorePass& pass);
  void declare_axes(Builder& builder) const;
  void add_columns(Builder& builder, const ModelGraph& model, int stream);

  const Model& model_;
  const ModelOptions& options_;
  const ReferenceOptions& reference_;
  const std::optional<ValueModel>& value_;
  size_t model_blocks_ = 0;  // of the graph, before the value model's
  AppendedObjective result_;
  std::optional<ModelGraph> reference_model_;  // of the reference's last pass
  std::vector<std::pair<std::string_view, ValueId>> scores_;
};

}  // namespace spillway::train
