#include "train/generation/generation_graphs.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/index.h"
#include "train/generation/cache_rows.h"

namespace spillway::train {
namespace {

// Enough to keep the matrix products busy.
constexpr int64_t kPromptTokens = 256;

CachedGraph build(const Model& model, ModelOptions options, int64_t tokens, int64_t rows, CacheUse use,
                  const Graph* adopted) {
  CachedGraph result;
  result.graph.name = use == CacheUse::kDecode ? "generation" : "prompts";
  Builder builder(result.graph, {.name = use == CacheUse::kDecode ? "decode" : "prompt"});
  if (adopted != nullptr) builder.adopt(*adopted);
  options.tokens = tokens;
  if (options.lora) options.lora->dropout = 0;
  result.model = model.build_cached(builder, options, rows, use);
  return result;
}

}  // namespace

GenerationSizes generation_sizes(std::vector<int64_t> sequence_tokens, int64_t at_once) {
  std::sort(sequence_tokens.begin(), sequence_tokens.end(), std::greater());
  GenerationSizes sizes{.sequences = std::min(std::ssize(sequence_tokens), at_once),
                        .longest = sequence_tokens.front()};
  const auto all = std::accumulate(sequence_tokens.begin(), sequence_tokens.begin() + sizes.sequences, int64_t{0});
  for (int64_t i = 0; i < sizes.sequences; ++i) sizes.cache_rows += CacheRows::rows_for(nth(sequence_tokens, i));
  sizes.prompt_tokens = std::min(all, kPromptTokens);
  return sizes;
}

GenerationGraphs build_generation_graphs(const Model& model, ModelOptions options, const GenerationSizes& sizes,
                                         const Graph* training) {
  options.sequence_len = sizes.longest;
  GenerationGraphs result;
  result.decode = build(model, options, sizes.sequences, sizes.cache_rows, CacheUse::kDecode, training);
  result.prompt = build(model, options, sizes.prompt_tokens, sizes.cache_rows, CacheUse::kPrompt, &result.decode.graph);
  return result;
}

}  // namespace spillway::train
