// A training objective: how rows become streams of tokens, which columns the loss reads, which operations it appends to
// a model's outputs, and which metrics it reports. The training graph, evaluation, the batches and the trainer work
// with this interface only. docs/add-an-objective.md says how to add one.
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

namespace spillway::config {
struct EntropyWeight;
}  // namespace spillway::config

namespace spillway::train {

// The axis of the rows of the data, in graphs of objectives that have rows; it follows the axis of tokens.
constexpr AxisId kRowAxis{1};

// A column that the objective reads.
struct LossColumn {
  Column column;
  ValueType (*type)(const Graph& graph, const ModelGraph& model);
  int stream = 0;
};
// One number per token.
[[nodiscard]] ValueType i32_per_token(const Graph& graph, const ModelGraph& model);
[[nodiscard]] ValueType f32_per_token(const Graph& graph, const ModelGraph& model);
// One number per row of the data, along the axis "rows". REQUIRES: the objective has rows.
[[nodiscard]] ValueType f32_per_row(const Graph& graph, const ModelGraph& model);

// The model whose forward pass scores rows: the weights in training, those of the reference, or the value model.
enum class ScoredBy : uint8_t { kPolicy, kReference, kValue };

// A separate forward pass before the differentiated one, which scores each row of a stream.
struct ScorePass {
  std::string_view section;  // its name in the graph
  ScoredBy by = ScoredBy::kReference;
  int stream = 0;
  // The names of its scores, each of type `type`, in the order in which append_scores() returns them. A score that is
  // known before the rows are trained on is the batch value "batch.<name>" instead.
  std::vector<std::string_view> scores;
  ValueType (*type)(const Graph& graph, const ModelGraph& model) = f32_per_row;
  // True if a program of its own (job/programs.h) runs the pass once over rows that are trained on several times.
  bool is_run_before = false;
};

// The inputs of a pass or the loss in addition to the model's outputs.
class ObjectiveInputs {
 public:
  // `value` is the graph of the value model; null if there is none, or for a pass, which has one model.
  ObjectiveInputs(const ModelGraph& model, std::span<const BatchColumn> columns, const ModelGraph* value = nullptr,
                  ops::LossGradients gradients = ops::LossGradients::kNone)
      : model_(model), value_(value), columns_(columns), gradients_(gradients) {}

  [[nodiscard]] const ModelGraph& model() const { return model_; }
  // Returns the model that ran the last pass of the reference. REQUIRES: this graph has such a pass.
  [[nodiscard]] const ModelGraph& reference_model() const { return *reference_; }
  void set_reference_model(const ModelGraph& reference) { reference_ = &reference; }
  // REQUIRES: the job has a value model.
  [[nodiscard]] const ModelGraph& value_model() const { return *value_; }
  // The gradients that will be asked of the loss.
  [[nodiscard]] ops::LossGradients gradients() const { return gradients_; }
  // A column of the stream that the model reads, and a score of a pass. REQUIRES: the objective has such a column, or a
  // pass with that score.
  [[nodiscard]] ValueId column(std::string_view name) const;
  [[nodiscard]] ValueId score(std::string_view name) const;
  // The ranks that share each stream; a rank's values per token are those of its rows.
  [[nodiscard]] int64_t context_ranks() const { return context_ranks_; }
  void set_context_ranks(int64_t ranks) { context_ranks_ = ranks; }
  // The model's column of the sequences' offsets in this rank's rows, i32 [sequences + 1]: where ranks share a stream,
  // offsets may lie before these rows, or behind them.
  [[nodiscard]] ValueId sequence_offsets() const {
    return column(context_ranks_ > 1 ? kOwnOffsets.name : kSeqOffsets.name);
  }
  void add_score(std::string_view name, ValueId value) { scores_.emplace_back(name, value); }

 private:
  const ModelGraph& model_;
  const ModelGraph* value_;
  const ModelGraph* reference_ = nullptr;
  std::span<const BatchColumn> columns_;
  ops::LossGradients gradients_;
  int64_t context_ranks_ = 1;
  std::vector<std::pair<std::string_view, ValueId>> scores_;
};

struct Loss {
  ValueId loss = kNone;  // f32 [1]: what is differentiated, the stream's share of the step's mean
  // The values that metrics read: f32 or i32 [1], or f32 [rows]. Each must be computed here, since the results of a
  // pass are freed at the end of its section.
  std::vector<ValueId> observed;
};

// The micro-batches and targets of a weight update, and the number of updates in a step.
struct StepTotals {
  int64_t micro_batches = 0;
  int64_t targets = 0;  // tokens
  int64_t updates = 1;
};

class Objective {
 public:
  virtual ~Objective() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;

  // The number of sequences that a row of the data has in each stream, if the loss knows rows; else 0, and there is no
  // axis "rows".
  [[nodiscard]] virtual int64_t sequences_per_row() const { return 0; }
  // Returns true if loss and observed numbers are sums over tokens, whatever sequences these are of: ranks that share
  // sequences then add theirs up. Otherwise each of them has those of whole sequences (sum_of_sequences).
  [[nodiscard]] virtual bool is_sum_of_tokens() const { return false; }
  // Returns true if the run generates the completions that it is trained on (OnlineObjective).
  [[nodiscard]] virtual bool generates() const { return false; }
  // The number of streams in a micro-batch. The first one is trained on.
  [[nodiscard]] virtual int streams() const { return 1; }
  // Throws InputError if no row has anything to learn from, and warns if some have nothing.
  virtual void check(const data::RowTable& rows) const { (void)rows; }
  // Replaces the content of a micro-batch's streams; allocates only to grow. Each piece is a line of its
  // own. For rows of a data set; objectives that train on generated completions have OnlineObjective::fill().
  virtual void fill(std::span<data::MicroBatch> streams, const data::RowTable& rows,
                    std::span<const data::Piece> pieces) const;
  [[nodiscard]] virtual std::vector<LossColumn> columns() const = 0;

  [[nodiscard]] virtual std::vector<ScorePass> passes() const { return {}; }
  // Appends the operations of a pass and returns its scores.
  [[nodiscard]] virtual std::vector<ValueId> append_scores(Builder& builder, const ScorePass& pass,
                                                           const ObjectiveInputs& inputs) const;
  // Appends the loss. `scale` is f32 [1]. The gradient follows from the vjps of the operations.
  [[nodiscard]] virtual Loss append(Builder& builder, const ObjectiveInputs& inputs, ValueId scale) const = 0;

  // The factor of a micro-batch's loss; with it, the losses of an update's micro-batches add up to the loss of the
  // update.
  [[nodiscard]] virtual float scale(const StepTotals& step) const = 0;
  // Adds the metrics of a micro-batch. `seen.loss` is the loss for a scale of one.
  virtual void observe(const Observation& seen, MetricSums& sums) const = 0;
  // The keys that the metrics of an evaluation can have; empty if they are only known after one.
  [[nodiscard]] virtual std::vector<std::string_view> metric_keys() const { return {}; }
  // Appends the metrics of a step or an evaluation, computed from the sums; the loss comes first if it is among them.
  virtual void metrics(const MetricSums& sums, std::vector<Metric>& into) const { sums.means(into); }
};
using ObjectivePtr = std::shared_ptr<const Objective>;

// Supervised fine-tuning and pretraining on text: the cross-entropy of each token that has a label.
[[nodiscard]] const ObjectivePtr& text_objective();
// The same with smoothed targets: `label_smoothing` of linear_cross_entropy.
[[nodiscard]] ObjectivePtr smoothed_text_objective(double label_smoothing);
// The same with each token's loss weighted by the token's probability (DFT).
[[nodiscard]] const ObjectivePtr& weighted_text_objective();
// The same with each token's loss weighted by the entropy of the likeliest tokens (EAFT). An accumulated step divides
// the sum by all targets, weighted or not.
[[nodiscard]] ObjectivePtr entropy_weighted_text_objective(const config::EntropyWeight& weight);

}  // namespace spillway::train
