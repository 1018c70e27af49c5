// The reference's scores of each row, as a program beside training. It runs before the first step, while the weights in
// training are still those of the reference, so that training needs no second copy of them.
#pragma once

#include <string_view>
#include <vector>

#include "job/training_graph.h"

namespace spillway::train {

struct ScoringGraph {
  Graph graph;                           // a section for each pass; results are the scores
  AppendedObjective objective;           // columns and passes
  std::vector<std::string_view> scores;  // names of the results
};

// Returns a graph that reads the weights of the training graph in the same places (Builder::adopt), or those of another
// model beside them (AppendedObjective::copies), which must be loaded first. REQUIRES: options.reference is
// precomputed.
[[nodiscard]] ScoringGraph build_scoring_graph(const Model& model, const TrainingGraphOptions& options,
                                               const TrainingGraph& training);

}  // namespace spillway::train
