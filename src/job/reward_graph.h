// A reward model as a program beside training.
#pragma once

#include "infer/scoring/reward_program.h"
#include "job/training_graph.h"

namespace spillway::train {

struct RewardGraph {
  Graph graph;  // its one result is the score of each token, f32 [tokens, 1]
  ModelGraph model;
};

// Builds the graph over the weights that the training graph keeps of the model (TrainingGraphOptions::beside).
[[nodiscard]] RewardGraph build_reward_graph(const ModelBeside& beside, const infer::RewardRoom& room,
                                             const TrainingGraph& training);

}  // namespace spillway::train
