// What the reference says of each row, as a program of its own beside training: it runs before the first step, when the
// weights in training are still those of the reference, and then training needs no other copy of them.
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

// Of the same weights as the training graph, in the same places (Builder::adopt), or of those of another model beside
// them (AppendedObjective::copies), which are still to be loaded. REQUIRES: options.reference is precomputed.
[[nodiscard]] ScoringGraph build_scoring_graph(const Model& model, const TrainingGraphOptions& options,
                                               const TrainingGraph& training);

}  // namespace spillway::train
