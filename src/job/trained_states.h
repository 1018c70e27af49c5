// The values that live beside the trained weights of a training graph: optimizer states, masters, averages and sums of
// gradients. Ranks may have parts of them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/autodiff.h"
#include "graph/builder.h"
#include "job/gradient_pool.h"
#include "job/training_graph.h"
#include "model/parameters.h"

namespace spillway::train {

// Declares these persistent values. Not thread-safe.
class TrainedStates {
 public:
  // Borrows all of them. Appends to the graph of `builder`, and to what `result` says of it. REQUIRES: its models, its
  // optimizer and its batch values are there.
  TrainedStates(Builder& builder, const TrainingGraphOptions& options, TrainingGraph& result)
      : b_(builder), options_(options), result_(result) {}

  // Declares those of the model's weights, and of the value model's. Called once.
  void declare();

  // Returns the weights that get gradients, in the order of TrainingGraph::trained: all, or those of drawn layers.
  [[nodiscard]] const std::vector<WeightGradient>& gradients() const { return gradients_; }
  // Returns by gradient: the place of its weight in TrainingGraph::trained.
  [[nodiscard]] const std::vector<size_t>& learned() const { return learned_; }

 private:
  [[nodiscard]] bool on_several_ranks() const { return options_.ranks > 1; }

  void declare(const ParameterTable& parameters, bool is_value);
  // Declares the sums that drawn layers share.
  void declare_pool();
  // Sets the optimizer's states of a weight and whether ranks have parts of them, and returns the slices.
  std::vector<ops::RowSlice> lay_out(TrainedWeight& t) const;
  void add_slices(TrainedWeight& t);
  // Returns one slice for a part of a weight that is updated where it is.
  [[nodiscard]] std::vector<ops::RowSlice> slices_of(const Shape& shape, int64_t unit, bool is_split) const;
  // Returns true if ranks can share the update of a weight: each of them sees its part as a weight of its own.
  [[nodiscard]] bool can_split(const TrainedWeight& t, bool is_bf16_alone) const;
  // Returns the batch value that counts the updates of a weight; kNone for one that the graph does not train.
  [[nodiscard]] ValueId step_of(std::string_view weight) const;
  // Returns the type in which a weight's gradient leaves the backward pass.
  [[nodiscard]] DType gradient_dtype(const Parameter& p) const;
  // Returns true if the sums of a weight are some of the pool's.
  [[nodiscard]] bool is_pooled(const TrainedWeight& t) const;
  ValueId accumulator_of(const TrainedWeight& t, const Parameter& p);

  // Declares a value beside a weight.
  ValueId state(std::string name, ValueId weight, const ValueType& type, ValueKind kind);
  // Declares a value beside a weight of which each rank has a part.
  ValueId part(std::string name, ValueId weight, const ValueType& whole, ValueKind kind, int64_t unit = kCutBlock);
  // Notes that ranks have parts of a value, and returns it.
  ValueId note_part(ValueId id, const ValueType& whole, int64_t unit = kCutBlock);

  Builder& b_;
  const TrainingGraphOptions& options_;
  TrainingGraph& result_;
  std::optional<GradientPool> pool_;  // of drawn layers
  std::vector<WeightGradient> gradients_;
  std::vector<size_t> learned_;
};

}  // namespace spillway::train
