// Generation as two programs over the same weights and key-value caches: one reads prompts, one decodes. They run
// alone, or beside a training job, whose weights they use in place.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "model/model.h"
#include "plan/planner.h"

namespace spillway::infer {

// The capacities of the programs.
struct GenerationSizes {
  int64_t sequences = 1;  // that are decoded at once
  int64_t cache_rows = 0;
  int64_t longest = 0;        // tokens of a sequence, prompt included, for the predicted cost of attention
  int64_t prompt_tokens = 1;  // of a run
  int64_t all_tokens = 1;     // of all sequences at once, the most that a run can use
  int64_t answer_tokens = 1;  // of the longest answer

  // Returns sizes with runs that read `count` times as many tokens of prompts, as far as there are so many.
  [[nodiscard]] GenerationSizes with_longer_runs(int64_t count) const;
};

// Returns the capacities for sequences of these lengths, up to `at_once` of them at once. `answer_tokens` are those of
// the longest answer; 0: of a whole sequence.
constexpr int64_t kMaxSequences = 32;
[[nodiscard]] GenerationSizes generation_sizes(std::vector<int64_t> sequence_tokens, int64_t at_once = kMaxSequences,
                                               int64_t answer_tokens = 0);

// The inputs by which the decoding program chooses tokens (ops/draw_token/draw_token.h): barred ids, i32 [T,
// kMaxBarred]; the others are f32 [T].
struct TokenChoice {
  ValueId barred = kNone;
  ValueId inverse_temperature = kNone, uniform = kNone, logprob_inverse_temperature = kNone;
};
inline constexpr int64_t kMaxBarred = 8;

// The results of a decoding program, by their index in Graph::results: the logits of each token, f32 [T, vocab_size];
// the next token, i32 [T]; and its log-probability, f32 [T].
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

// Names of parameters, for build_generation_graphs().
using ParameterNames = std::set<std::string, std::less<>>;

// Returns how many times as many tokens of prompts a run should read, a power of two, so that its arithmetic hides what
// it brings to the device; `prompt` is the plan of one that reads sizes.prompt_tokens. 1: as many.
[[nodiscard]] int64_t longer_runs(const Plan& prompt, const GenerationSizes& sizes);

// Builds the programs. Ignores `options.tokens`, `options.max_sequences` and dropout. `training` is the graph of a job
// with the same options, which `decode` adopts. The weights named in `gathered` are copied then, and the copies stay on
// the device while the programs run.
[[nodiscard]] GenerationGraphs build_generation_graphs(const Model& model, ModelOptions options,
                                                       const GenerationSizes& sizes, const Graph* training = nullptr,
                                                       ParameterNames gathered = {});

}  // namespace spillway::infer
