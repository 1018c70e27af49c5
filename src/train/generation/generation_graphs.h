// Generation as two programs over the same weights and key-value caches: one takes prompts in, one decodes. Alone, or
// beside a training job, whose weights they then use where training has them.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

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

// What a decoding program chooses tokens by (ops/draw_token/draw_token.h): ids that are barred, i32 [T, kMaxBarred],
// and f32 [T] each.
struct TokenChoice {
  ValueId barred = kNone;
  ValueId inverse_temperature = kNone, uniform = kNone, logprob_inverse_temperature = kNone;
};
inline constexpr int64_t kMaxBarred = 8;

// Results of a decoding program, by their places in Graph::results: of each token its logits, f32 [T, vocab_size], and
// which token follows it, i32 [T], with its log-probability, f32 [T].
inline constexpr size_t kLogitsResult = 0, kIdsResult = 1, kLogprobsResult = 2;

struct CachedGraph {
  Graph graph;
  CachedModelGraph model;
  TokenChoice choice;  // of a decoding program
};

struct GenerationGraphs {
  CachedGraph decode;
  CachedGraph prompt;  // adopts `decode`
  // Where these read copies of weights that live elsewhere (ModelOptions::copies): what fills the copies from where
  // training has the weights, once before they run. Adopts `prompt`.
  std::optional<Graph> gather;
};

// The names of parameters, for build_generation_graphs().
using ParameterNames = std::set<std::string, std::less<>>;

// `options.tokens` is not read; dropout is left out. With `training`, the graph of a job with the same options,
// `decode` adopts it; of the weights `gathered` there are copies then, which stay on the device while the programs run.
[[nodiscard]] GenerationGraphs build_generation_graphs(const Model& model, ModelOptions options,
                                                       const GenerationSizes& sizes, const Graph* training = nullptr,
                                                       ParameterNames gathered = {});

}  // namespace spillway::train
