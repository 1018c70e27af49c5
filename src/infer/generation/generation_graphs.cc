#include "infer/generation/generation_graphs.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "base/index.h"
#include "base/math.h"
#include "infer/generation/cache_rows.h"
#include "ops/copy/copy.h"
#include "ops/draw_token/draw_token.h"
#include "plan/hiding_count.h"

namespace spillway::infer {
namespace {

// Enough to keep the matrix products busy.
constexpr int64_t kPromptTokens = 256;
// The prefix of the names of copies, and the part of their groups: a plan keeps groups that training does not have on
// the device.
constexpr std::string_view kGatheredPrefix = "gathered.", kGatheredPart = "gathered";

TokenChoice append_choice(Builder& builder, ValueId logits) {
  const int64_t tokens = builder.type(logits).shape[0];
  const auto input = [&](const char* name) {
    return builder.input(name, {DType::kF32, {tokens}, kTokenAxis}, ValueKind::kBatch);
  };
  const ValueType barred{DType::kI32, {tokens, kMaxBarred}, kTokenAxis};
  const TokenChoice choice{.barred = builder.input("batch.barred", barred, ValueKind::kBatch),
                           .inverse_temperature = input("batch.inverse_temperature"),
                           .uniform = input("batch.uniform"),
                           .logprob_inverse_temperature = input("batch.logprob_inverse_temperature")};
  const ops::DrawnTokens drawn =
      ops::draw_token(builder, {.logits = logits,
                                .barred = choice.barred,
                                .inverse_temperature = choice.inverse_temperature,
                                .uniform = choice.uniform,
                                .logprob_inverse_temperature = choice.logprob_inverse_temperature});
  builder.result(logits);
  builder.result(drawn.ids);
  builder.result(drawn.logprobs);
  return choice;
}

// `options` have the number of sequences.
CachedGraph build(const Model& model, ModelOptions options, int64_t tokens, int64_t rows, CacheUse use,
                  const Graph* adopted) {
  CachedGraph result;
  result.graph.name = use == CacheUse::kDecode ? "generation" : "prompts";
  Builder builder(result.graph, {.name = use == CacheUse::kDecode ? "decode" : "prompt"});
  if (adopted != nullptr) builder.adopt(*adopted);
  options = options.without_dropout();
  options.tokens = tokens;
  result.model = model.text()->build_cached(builder, options, rows, use);
  if (use == CacheUse::kDecode) result.choice = append_choice(builder, result.model.logits);
  return result;
}

// Fills the copies that `model` reads.
Graph build_gather(const CachedGraph& model, const Graph& adopted) {
  Graph graph;
  graph.name = "weights";
  Builder builder(graph, {.name = "gather"});
  builder.adopt(adopted);
  for (const Parameter& p : model.model.parameters) {
    if (!p.is_copy) continue;
    for (const ValueId value : p.values) {
      const std::string name = model.graph.value(value).name;
      const ValueId to = graph.find(name), from = graph.find(name.substr(kGatheredPrefix.size()));
      builder.set_block(graph.value(to).block);
      builder.update(to, ops::copy(builder, from));
    }
  }
  builder.end_block();
  return graph;
}

}  // namespace

GenerationSizes generation_sizes(std::vector<int64_t> sequence_tokens, int64_t at_once, int64_t answer_tokens) {
  std::sort(sequence_tokens.begin(), sequence_tokens.end(), std::greater());
  GenerationSizes sizes{.sequences = std::min(std::ssize(sequence_tokens), at_once),
                        .longest = sequence_tokens.front()};
  const auto all = std::accumulate(sequence_tokens.begin(), sequence_tokens.begin() + sizes.sequences, int64_t{0});
  for (int64_t i = 0; i < sizes.sequences; ++i) sizes.cache_rows += CacheRows::rows_for(nth(sequence_tokens, i));
  sizes.all_tokens = all;
  sizes.answer_tokens = answer_tokens > 0 ? answer_tokens : sizes.longest;
  sizes.prompt_tokens = std::min(all, kPromptTokens);
  return sizes;
}

GenerationSizes GenerationSizes::with_longer_runs(int64_t count) const {
  GenerationSizes sizes = *this;
  sizes.prompt_tokens = std::min(all_tokens, count * prompt_tokens);
  return sizes;
}

int64_t longer_runs(const Plan& prompt, const GenerationSizes& sizes) {
  if (!waits_for_transfers(prompt)) return 1;
  const int64_t most = div_ceil(sizes.all_tokens, sizes.prompt_tokens);
  return hiding_count(prompt, std::min(most, kMaxTogether));
}

GenerationGraphs build_generation_graphs(const Model& model, ModelOptions options, const GenerationSizes& sizes,
                                         const Graph* training, ParameterNames gathered) {
  options.sequence_len = sizes.longest;
  options.max_sequences = sizes.sequences;
  options.copies = std::move(gathered);
  options.copy_prefix = kGatheredPrefix;
  options.copy_part = kGatheredPart;
  GenerationGraphs result;
  result.decode = build(model, options, sizes.sequences, sizes.cache_rows, CacheUse::kDecode, training);
  result.prompt = build(model, options, sizes.prompt_tokens, sizes.cache_rows, CacheUse::kPrompt, &result.decode.graph);
  if (!options.copies.empty()) result.gather = build_gather(result.decode, result.prompt.graph);
  return result;
}

}  // namespace spillway::infer
