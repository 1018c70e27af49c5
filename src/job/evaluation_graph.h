// Evaluation as a program of its own beside training: the model's forward operations and the loss alone. It saves
// nothing for a backward pass, so nothing is moved or recomputed for one, and it computes no gradients. Passes that
// score rows stand before it, as in training.
#pragma once

#include "job/training_graph.h"

namespace spillway::train {

struct EvaluationGraph {
  Graph graph;
  SectionId evaluate = 0;
  AppendedObjective objective;
};

// Of the same weights as the training graph, in the same places (Builder::adopt), without dropout.
[[nodiscard]] EvaluationGraph build_evaluation_graph(const Model& model, const TrainingGraphOptions& options,
                                                     const TrainingGraph& training);

}  // namespace spillway::train
