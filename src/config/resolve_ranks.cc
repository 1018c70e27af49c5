// Several ranks: how many train one job, and what they share of it.
#include "base/error.h"
#include "config/resolve.h"
#include "config/values.h"

namespace spillway::config {
namespace {

// One rank trains to the same result as ranks that split sequences, weights or states among them.
void ignore_what_ranks_split(const Resolution& r) {
  constexpr std::string_view kAlone =
      "one rank trains, whose result is that of ranks which split sequences, weights or states among them";
  for (const char* key :
       {"zero_stage", "context_parallel_size", "tensor_parallel_size", "expert_parallel_size", "gradient_reduction"})
    r.ignore(key, kAlone);
}

// Returns the ranks that share each micro-batch.
int64_t context_of(const Resolution& r, int64_t ranks) {
  constexpr const char* kKey = "context_parallel_size";
  const Spelled& keys = r.keys;
  const int64_t context = keys.context_parallel_size;
  if (context == 1) return context;
  if (ranks % context != 0)
    throw input_error(r.where(kKey), "expected a divisor of the number of ranks, {}, got {}; change it, or remove it",
                      ranks, context);
  if (is_online(keys))
    r.not_yet(kKey,
              fmt::format("1 beside online reinforcement learning, got {}; ranks that give each other the scores of a "
                          "completion's tokens are",
                          context));
  return context;
}

void check_split(const Resolution& r) {
  const Spelled& keys = r.keys;
  for (const auto& [key, size] : {std::pair{"tensor_parallel_size", keys.tensor_parallel_size},
                                  {"expert_parallel_size", keys.expert_parallel_size}}) {
    if (size == 1) continue;
    r.not_yet(key, fmt::format("1 beside several ranks, got {}; zero_stage: 3 splits weights over ranks, products that "
                               "ranks share are",
                               size));
  }
}

// Gradients are in parts at every stage, as their sums in the order of micro-batches need them; whoever splits the
// optimizer's state, too, sends less than who does not. So 2 sends least of all, and auto begins there.
int zero_stage_of(ZeroStage said) {
  switch (said) {
    case ZeroStage::kNothing:
      return 0;
    case ZeroStage::kOptimizerState:
      return 1;
    case ZeroStage::kWeights:
      return 3;
    case ZeroStage::kGradients:
    case ZeroStage::kAuto:
      return 2;
  }
  report_bug(__FILE__, __LINE__, "zero_stage", "unknown");
}

// Throws InputError where the sizes of data parallelism are not those of the ranks.
void check_parallel_sizes(const Resolution& r, int64_t shards, int64_t ranks) {
  const int64_t copies = r.keys.dp_replicate_size;
  for (const auto& [key, size] : {std::pair{"dp_shard_size", shards}, {"dp_replicate_size", copies}}) {
    if (ranks % size == 0) continue;
    throw input_error(r.where(key), "expected a divisor of the number of ranks, {}, got {}; change it, or remove it",
                      ranks, size);
  }
  if (!r.given("dp_replicate_size") || shards * copies == ranks) return;
  throw input_error(r.where("dp_replicate_size"),
                    "expected dp_shard_size x dp_replicate_size to be the number of ranks, {}, got {} x {}; change "
                    "one of them",
                    ranks, shards, copies);
}

// Sets the number of groups that have all states. Where a group is one rank, nothing is split.
void take_copies(const Resolution& r, RankSettings& ranks) {
  const Spelled& keys = r.keys;
  const int64_t said = keys.dp_shard_size.value_or(-1);
  const int64_t rest = ranks.count % keys.dp_replicate_size == 0 ? ranks.count / keys.dp_replicate_size : ranks.count;
  const int64_t shards = said > 0 ? said : rest;
  check_parallel_sizes(r, shards, ranks.count);
  ranks.shards_by_host = r.loaded.shards_by_host && said < 1 && !r.given("dp_replicate_size");
  if (shards == 1 && keys.zero_stage != ZeroStage::kAuto && ranks.zero_stage > 0)
    r.note("zero_stage: groups of one rank have nothing to split, which is zero_stage: 0");
  ranks.split_over(shards);
}

}  // namespace

void RankSettings::split_over(int64_t shards) {
  if (shards == 1) {
    zero_stage = 0;
    chooses_stage = false;
  }
  // Stage 0 splits the sums of gradients alone, over all ranks.
  copies = zero_stage > 0 ? count / shards : 1;
}

void RankSettings::place_on_hosts(int64_t neighbours) {
  if (shards_by_host) split_over(neighbours);
  together = sums_by_host && neighbours < count ? neighbours : 1;
}

RankSettings resolve_ranks(const Resolution& r) {
  const Spelled& keys = r.keys;
  if (keys.dp_shard_size == 0)
    throw input_error(r.where("dp_shard_size"),
                      "expected -1 or an integer of at least 1, got 0; change it, or remove it");
  const int64_t started = r.loaded.source.ranks;
  const bool is_video = r.given("num_gpus") && keys.num_gpus;
  r.exclude("num_processes", true, "num_gpus", true);
  const int64_t said = is_video ? std::max<int64_t>(*keys.num_gpus, 1) : keys.num_processes;
  const char* const key = is_video ? "num_gpus" : "num_processes";
  if (started > 0 && r.given(key) && said != started)
    throw input_error(r.where(key),
                      "expected {}, the ranks that the launcher has started, got {}; change it, or remove it", started,
                      said);
  RankSettings ranks{.count = started > 0 ? started : said, .timeout_seconds = static_cast<double>(keys.ddp_timeout)};
  if (ranks.count == 1) {
    ignore_what_ranks_split(r);
    return ranks;
  }
  check_split(r);
  ranks.context = context_of(r, ranks.count);
  ranks.zero_stage = zero_stage_of(keys.zero_stage);
  ranks.chooses_stage = keys.zero_stage == ZeroStage::kAuto;
  ranks.sums_by_host = keys.gradient_reduction == GradientReduction::kByHost;
  take_copies(r, ranks);
  return ranks;
}

}  // namespace spillway::config
