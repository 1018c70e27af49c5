// Evaluation as a program of its own: the forward operations of the model and the loss. It computes no gradients and
// saves nothing for a backward pass. Passes that score rows come before it, as in training.
#pragma once

#include "job/training_graph.h"

namespace spillway::train {

struct EvaluationGraph {
  Graph graph;
  SectionId evaluate = 0;
  AppendedObjective objective;
};

// Returns a graph that reads the same weights as the training graph in the same places (Builder::adopt), without
// dropout.
[[nodiscard]] EvaluationGraph build_evaluation_graph(const Model& model, const TrainingGraphOptions& options,
                                                     const TrainingGraph& training);

}  // namespace spillway::train
