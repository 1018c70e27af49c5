// What training makes small. An objective says which columns of the rows it reads, what it appends to a model's
// outputs, and what is reported of it; the training graph, evaluation, the batch and the trainer walk over that.
// docs/add-an-objective.md says how to add one.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "model/model.h"
#include "ops/linear_cross_entropy/linear_cross_entropy.h"

namespace spillway::train {

// One number of an evaluation.
struct Metric {
  std::string_view key;    // in metrics.jsonl: "eval_perplexity"
  std::string_view label;  // on the terminal: "perplexity"
  double value = 0;
  bool is_share = false;  // shown in percent
};

// A column that the objective reads.
struct LossColumn {
  Column column;
  ValueType (*type)(const Graph& graph, const ModelGraph& model);
};
// One i32 per token.
[[nodiscard]] ValueType i32_per_token(const Graph& graph, const ModelGraph& model);

struct LossInputs {
  const ModelGraph& model;
  std::span<const BatchColumn> columns;  // as Objective::columns says
  ValueId scale = kNone;                 // f32 [1]: 1 / targets of the whole step
  ops::LossGradients gradients;          // that will be asked for
};

struct Loss {
  ValueId loss = kNone;       // f32 [1]: what is differentiated, the stream's share of the step's mean
  std::vector<ValueId> sums;  // [1] each, f32 or i32: over the stream, for metrics
};

struct Objective {
  std::string_view name;
  std::span<const LossColumn> columns;
  Loss (*append)(Builder& builder, const LossInputs& inputs);
  // Of `sums` over all streams of an evaluation with this many targets, where the scale of each was 1; the loss comes
  // first.
  std::vector<Metric> (*metrics)(double loss, std::span<const double> sums, double targets);
};

// An objective in a graph.
struct AppendedObjective {
  const Objective* objective = nullptr;
  std::vector<BatchColumn> columns;
  ValueId scale = kNone;  // batch value, f32 [1]
  ValueId loss = kNone;
  size_t loss_result = 0;  // into Graph::results; those of the sums follow
  size_t sums = 0;         // their number
};

// Appends batch values, loss and results to the builder's section.
[[nodiscard]] AppendedObjective append_objective(Builder& builder, const Objective& objective, const ModelGraph& model,
                                                 ops::LossGradients gradients);

}  // namespace spillway::train
