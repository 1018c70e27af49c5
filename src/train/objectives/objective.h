// What training makes small. An objective says which columns of the rows it reads, what it appends to a model's
// outputs, and what is reported of it; the training graph, evaluation, the batch and the trainer walk over that.
// docs/add-an-objective.md says how to add one.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "model/transformer.h"
#include "ops/linear_cross_entropy/linear_cross_entropy.h"

namespace spillway::train {

// A column of the rows, i32, one entry per token; in the graph it is the batch value "batch.<name>".
struct Column {
  std::string_view name;
};

// One number of an evaluation.
struct Metric {
  std::string_view key;    // in metrics.jsonl: "eval_perplexity"
  std::string_view label;  // on the terminal: "perplexity"
  double value = 0;
  bool is_share = false;  // shown in percent
};

struct LossInputs {
  const Decoder& model;
  std::span<const ValueId> columns;  // as Objective::columns says
  ValueId scale = kNone;             // f32 [1]: 1 / targets of the whole step
  ops::LossGradients gradients;      // that will be asked for
};

struct Loss {
  ValueId loss = kNone;       // f32 [1]: what is differentiated, the stream's share of the step's mean
  std::vector<ValueId> sums;  // [1] each, f32 or i32: over the stream, for metrics
};

struct Objective {
  std::string_view name;
  std::span<const Column> columns;
  Loss (*append)(Builder& builder, const LossInputs& inputs);
  // Of `sums` over all streams of an evaluation with this many targets, where the scale of each was 1; the loss comes
  // first.
  std::vector<Metric> (*metrics)(double loss, std::span<const double> sums, double targets);
};

// An objective in a graph.
struct AppendedObjective {
  const Objective* objective = nullptr;
  std::vector<ValueId> columns;  // batch values, i32 [T] per token
  ValueId scale = kNone;         // batch value, f32 [1]
  ValueId loss = kNone;
  size_t loss_result = 0;  // into Graph::results; those of the sums follow
  size_t sums = 0;         // their number
};

// Appends batch values, loss and results to the builder's section.
[[nodiscard]] AppendedObjective append_objective(Builder& builder, const Objective& objective, const Decoder& model,
                                                 ops::LossGradients gradients);

}  // namespace spillway::train
