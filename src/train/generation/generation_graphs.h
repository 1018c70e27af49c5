// Generation as two programs over the same weights and key-value caches: one takes prompts in, one decodes. Alone, or
// beside a training job, whose weights they then use where training has them.
#pragma once

#include "model/model.h"

namespace spillway::train {

// The most that is ever worked on together.
struct GenerationSizes {
  int64_t sequences = 1;  // that are decoded at once
  int64_t cache_rows = 0;
  int64_t longest = 0;        // tokens of a sequence, prompt included, for the predicted cost of attention
  int64_t prompt_tokens = 1;  // of a run
};

// What the sequences of these lengths take, up to `at_once` of them at once.
constexpr int64_t kMaxSequences = 32;
[[nodiscard]] GenerationSizes generation_sizes(std::vector<int64_t> sequence_tokens, int64_t at_once = kMaxSequences);

struct CachedGraph {
  Graph graph;
  CachedModelGraph model;
};

struct GenerationGraphs {
  CachedGraph decode;
  CachedGraph prompt;  // adopts `decode`
};

// `options.tokens` is not read; dropout is left out. With `training`, the graph of a job with the same options,
// `decode` adopts it.
[[nodiscard]] GenerationGraphs build_generation_graphs(const Model& model, ModelOptions options,
                                                       const GenerationSizes& sizes, const Graph* training = nullptr);

}  // namespace spillway::train
