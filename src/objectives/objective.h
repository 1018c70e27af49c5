// What training makes small. An objective says how rows become streams of tokens, which columns it reads of them, what
// it appends to a model's outputs, and what is reported of it; the training graph, evaluation, the batch and the
// trainer walk over that. docs/add-an-objective.md says how to add one.
//
// An objective is immutable, and any thread may use it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/batch.h"
#include "model/model.h"
#include "objectives/metrics.h"
#include "ops/linear_cross_entropy/linear_cross_entropy.h"

namespace spillway::train {

// Of graphs of objectives that know rows of the data: the axis behind that of tokens.
constexpr AxisId kRowAxis{1};

// A column that the objective reads.
struct LossColumn {
  Column column;
  ValueType (*type)(const Graph& graph, const ModelGraph& model);
  int stream = 0;
};
// One per token.
[[nodiscard]] ValueType i32_per_token(const Graph& graph, const ModelGraph& model);
[[nodiscard]] ValueType f32_per_token(const Graph& graph, const ModelGraph& model);
// One per row of the data, along the axis "rows". REQUIRES: the objective has rows.
[[nodiscard]] ValueType f32_per_row(const Graph& graph, const ModelGraph& model);

// Whose forward pass scores rows: the weights in training, those that the reference keeps, or the value model.
enum class ScoredBy : uint8_t { kPolicy, kReference, kValue };

// A forward pass of its own before the one that is differentiated: it scores each row of a stream.
struct ScorePass {
  std::string_view section;  // its name in the graph
  ScoredBy by = ScoredBy::kReference;
  int stream = 0;
  // Of `type` each, as append_scores() returns them. A score that is known before the rows are trained on comes as the
  // batch value "batch.<name>" instead.
  std::vector<std::string_view> scores;
  ValueType (*type)(const Graph& graph, const ModelGraph& model) = f32_per_row;
  // Is run once over rows that are trained on several times, by a program of its own (scoring_graph.h).
  bool is_run_before = false;
};

// What a pass or the loss reads, beside the model's outputs.
class ObjectiveInputs {
 public:
  // `value` is the value model's graph, null where there is none, or where a pass has one model alone.
  ObjectiveInputs(const ModelGraph& model, std::span<const BatchColumn> columns, const ModelGraph* value = nullptr,
                  ops::LossGradients gradients = ops::LossGradients::kNone)
      : model_(model), value_(value), columns_(columns), gradients_(gradients) {}

  [[nodiscard]] const ModelGraph& model() const { return model_; }
  // REQUIRES: the job has a value model.
  [[nodiscard]] const ModelGraph& value_model() const { return *value_; }
  // What will be asked for of the loss.
  [[nodiscard]] ops::LossGradients gradients() const { return gradients_; }
  // Of the stream that the model reads. REQUIRES: the objective has that column, or a pass that score.
  [[nodiscard]] ValueId column(std::string_view name) const;
  [[nodiscard]] ValueId score(std::string_view name) const;
  // The value of the model's column of the stream's sequences, i32 [sequences + 1].
  [[nodiscard]] ValueId sequence_offsets() const { return column(kSeqOffsets.name); }
  void add_score(std::string_view name, ValueId value) { scores_.emplace_back(name, value); }

 private:
  const ModelGraph& model_;
  const ModelGraph* value_;
  std::span<const BatchColumn> columns_;
  ops::LossGradients gradients_;
  std::vector<std::pair<std::string_view, ValueId>> scores_;
};

struct Loss {
  ValueId loss = kNone;  // f32 [1]: what is differentiated, the stream's share of the step's mean
  // For metrics: f32 or i32 [1], or f32 [rows], each computed here: what a pass computed lasts no longer than its
  // section.
  std::vector<ValueId> observed;
};

// What an update of the weights is made of, and how many of them a step has.
struct StepTotals {
  int64_t micro_batches = 0;
  int64_t targets = 0;  // tokens
  int64_t updates = 1;
};

class Objective {
 public:
  virtual ~Objective() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;

  // Sequences that a row of the data is in each stream, where the loss knows rows; else 0, and there is no axis "rows".
  [[nodiscard]] virtual int64_t sequences_per_row() const { return 0; }
  // Whether the run makes the completions that it is trained on (OnlineObjective).
  [[nodiscard]] virtual bool generates() const { return false; }
  // How many streams a micro-batch has: the first is trained on.
  [[nodiscard]] virtual int streams() const { return 1; }
  // Throws InputError for rows that teach nothing, and warns of some that do not.
  virtual void check(const data::RowTable& rows) const { (void)rows; }
  // Fills the streams of a micro-batch over what they held; allocates only to grow. Of pieces of one line each. Of rows
  // that stand in the data: what is trained on completions that the run generates has OnlineObjective::fill.
  virtual void fill(std::span<data::MicroBatch> streams, const data::RowTable& rows,
                    std::span<const data::Piece> pieces) const;
  [[nodiscard]] virtual std::vector<LossColumn> columns() const = 0;

  [[nodiscard]] virtual std::vector<ScorePass> passes() const { return {}; }
  // Appends what a pass computes.
  [[nodiscard]] virtual std::vector<ValueId> append_scores(Builder& builder, const ScorePass& pass,
                                                           const ObjectiveInputs& inputs) const;
  // `scale` is f32 [1]. The gradient follows from the operations' own vjps.
  [[nodiscard]] virtual Loss append(Builder& builder, const ObjectiveInputs& inputs, ValueId scale) const = 0;

  // What a micro-batch's loss is scaled by, so that those of an update add up to its loss.
  [[nodiscard]] virtual float scale(const StepTotals& step) const = 0;
  // Adds what a micro-batch shows. `loss` is that of a scale of one.
  virtual void observe(const Observation& seen, MetricSums& sums) const = 0;
  // The keys that the metrics of an evaluation can have; empty where they are not known before one.
  [[nodiscard]] virtual std::vector<std::string_view> metric_keys() const { return {}; }
  // Of the sums over a step, or over an evaluation; the loss first where it is among them.
  virtual void metrics(const MetricSums& sums, std::vector<Metric>& into) const { sums.means(into); }
};
using ObjectivePtr = std::shared_ptr<const Objective>;

// Text: the cross-entropy of each token that has a label, as supervised fine-tuning and pretraining have it.
[[nodiscard]] const ObjectivePtr& text_objective();
// The same with smoothed targets: `label_smoothing` of linear_cross_entropy.
[[nodiscard]] ObjectivePtr smoothed_text_objective(double label_smoothing);
// The same where each token counts by its probability (DFT).
[[nodiscard]] const ObjectivePtr& weighted_text_objective();

}  // namespace spillway::train
