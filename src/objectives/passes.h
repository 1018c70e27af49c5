// An objective in a graph: the passes that score rows, in sections of their own, and the loss behind the model's
// forward pass. Training and evaluation build theirs alike.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "objectives/objective.h"

namespace spillway::train {

// How an objective's reference is had.
struct ReferenceOptions {
  // What the reference pass builds: the model without the adapter that is trained, or with frozen copies of what is.
  std::optional<ModelOptions> model;
  // Of which model: null for the one in training. All weights of another one are copies.
  ModelPtr other;
  // The scores of the reference are columns of the batch, known before the first step (scoring_graph.h): there are no
  // copies.
  bool is_precomputed = false;
  // Its copies follow the policy (sync_ref_model): they are part of a run's state.
  bool is_synced = false;
};

// A model beside the one in training that the objective reads and that is trained with it, as PPO's value model is: its
// weights are its own, and the names of their values begin with ModelOptions::prefix.
struct ValueModel {
  ModelPtr model;
  ModelOptions options;
};

// Where a pass runs, before the forward section.
struct PassSection {
  SectionId section = 0;
  int stream = 0;
  size_t scores = 0;  // how many it has
};

struct AppendedObjective {
  ObjectivePtr objective;
  std::vector<BatchColumn> columns;  // all that the graph reads, those of its models included
  std::vector<PassSection> passes;
  ParameterTable copies;  // that the reference reads: of weights that are trained, or all of another model
  bool copies_change = false;
  ValueId scale = kNone;  // batch value, f32 [1]
  ValueId loss = kNone;
  size_t loss_result = 0;  // into Graph::results; those observed follow
  size_t observed = 0;     // their number
};

// The order of sections: passes, then `forward`.
class ObjectiveBuilder {
 public:
  // All are borrowed. `options` are those of the forward pass and of passes by the weights in training. The reference
  // has no dropout, and neither have passes that run before training.
  ObjectiveBuilder(const Model& model, const ModelOptions& options, ObjectivePtr objective,
                   const ReferenceOptions& reference, const std::optional<ValueModel>& value);

  // The section that a graph's builder begins with.
  [[nodiscard]] Section first_section(const Section& forward) const;
  // Appends passes, and begins the forward section where there are any.
  void append_passes(Builder& builder, const Section& forward);
  // Appends the passes alone that run before training; their scores are the graph's results, in order.
  [[nodiscard]] AppendedObjective append_known(Builder& builder);
  // The passes that append_known() has.
  [[nodiscard]] std::vector<ScorePass> known_passes() const;
  // Appends the value model's forward operations, behind those of the model; nothing where there is none.
  [[nodiscard]] std::optional<ModelGraph> append_value_model(Builder& builder);
  // Appends columns, loss and results. `value` is what append_value_model() returned.
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
  void add_columns(Builder& builder, const ModelGraph& model, int stream);

  const Model& model_;
  const ModelOptions& options_;
  const ReferenceOptions& reference_;
  const std::optional<ValueModel>& value_;
  size_t model_blocks_ = 0;  // of the graph, before the value model's
  AppendedObjective result_;
  std::vector<std::pair<std::string_view, ValueId>> scores_;
};

}  // namespace spillway::train
