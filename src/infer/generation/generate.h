// Answers many prompts: as many sequences as fit are decoded together, and when one ends the next takes its place. An
// answer depends only on the prompt and its sampling, bit for bit.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/parallel.h"
#include "infer/generation/generation_graphs.h"
#include "infer/generation/penalties.h"
#include "infer/generation/sampling.h"
#include "runtime/executor.h"
#include "text/grammar/token_grammar.h"

namespace spillway::infer {

struct Prompt {
  std::vector<int32_t> ids;
  Sampling sampling;
  std::optional<double> repetition, frequency, presence;  // of Penalties, in place of those of all prompts

  // The tokens of the prompt and of the longest answer.
  [[nodiscard]] int64_t sequence_tokens() const { return std::ssize(ids) + sampling.max_new_tokens; }
};

struct Generated {
  std::vector<int32_t> ids;      // the new tokens; the one that stopped only if wanted
  std::vector<double> logprobs;  // of each, if wanted, under the model's own distribution, without penalty and filters
  bool stopped = false;          // by a stop token, not by the length
};

struct GenerationOptions {
  std::vector<int32_t> stop_ids;
  Penalties penalties = {};
  bool keeps_stop = false;  // the token that stopped belongs to the answer
  bool logprobs = false;
  double logprob_temperature = 1;
  std::shared_ptr<text::TokenGrammar> grammar = nullptr;  // each answer is a text of it
  // Called with each new token of a prompt as it is chosen.
  std::function<void(size_t prompt, int32_t id)> on_token = nullptr;
  // Called with each answer once it and all before it are done.
  std::function<void(size_t prompt, const Generated&)> on_answer = nullptr;
  // Called with each new token of a prompt; returns true if the answer ends with it. Checked in addition to stop_ids
  // and max_new_tokens.
  std::function<bool(size_t prompt, int32_t id)> ends_with = nullptr;
};

// The two graphs with their executors, which share one memory with the weights in place. All is borrowed.
struct GenerationPrograms {
  struct One {
    const Graph& graph;
    const CachedModelGraph& model;
    Executor& executor;
  };
  One decode, prompt;
  const TokenChoice& choice;
  ThreadPool& pool;
  // Returns true if any rank passes true. For programs that gather weights from several ranks, which all run them
  // equally often: called on all ranks before each run; a rank that has nothing to decode runs it without rows.
  std::function<bool(bool mine)> any_rank = nullptr;

  // Returns true if this rank, or any that runs the programs with it, has work.
  [[nodiscard]] bool have_work(bool mine) const { return any_rank ? any_rank(mine) : mine; }
};

// Returns the answers in the order of the prompts. A rank may have none, if others have some. REQUIRES: no prompt is
// empty, its ids are in the vocabulary, and
// each fits the caches of the graphs.
[[nodiscard]] std::vector<Generated> generate(const GenerationPrograms& programs, std::span<const Prompt> prompts,
                                              const GenerationOptions& options);

}  // namespace spillway::infer
