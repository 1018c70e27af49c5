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
  for (const char* key : {"zero_stage", "context_parallel_size", "tensor_parallel_size", "expert_parallel_size"})
    r.ignore(key, kAlone);
}

void check_split(const Resolution& r) {
  const Spelled& keys = r.keys;
  if (keys.context_parallel_size > 1)
    r.not_yet("context_parallel_size", fmt::format("1 beside several ranks, got {}; sequences that ranks share are",
                                                   keys.context_parallel_size));
  for (const auto& [key, size] : {std::pair{"tensor_parallel_size", keys.tensor_parallel_size},
                                  {"expert_parallel_size", keys.expert_parallel_size}}) {
    if (size == 1) continue;
    r.not_yet(key, fmt::format("1 beside several ranks, got {}; zero_stage: 3 splits weights over ranks, products that "
                               "ranks share are",
                               size));
  }
  if (r.given("parallelism_config"))
    r.not_yet("parallelism_config", "num_processes and dp_shard_size in its place, got a mapping; its sizes are");
  if (is_online(keys) && keys.zero_stage == ZeroStage::kWeights && keys.ds3_gather_for_generation == false)
    r.not_yet("ds3_gather_for_generation",
              "true beside zero_stage: 3, got false; weights that ranks gather for each token position are");
}

// Gradients are in parts at every stage, as their sums in the order of micro-batches need them; whoever splits the
// optimizer's state, too, sends less than who does not.
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
void check_parallel_sizes(const Resolution& r, int64_t ranks) {
  const Spelled& keys = r.keys;
  for (const auto& [key, size] :
       {std::pair{"dp_shard_size", keys.dp_shard_size}, {"dp_replicate_size", keys.dp_replicate_size}}) {
    if (ranks % size == 0) continue;
    throw input_error(r.where(key), "expected a divisor of the number of ranks, {}, got {}; change it, or remove it",
                      ranks, size);
  }
  const int64_t product = keys.dp_shard_size * keys.dp_replicate_size;
  if (!r.given("dp_shard_size") || !r.given("dp_replicate_size") || product == ranks) return;
  throw input_error(r.where("dp_replicate_size"),
                    "expected dp_shard_size x dp_replicate_size to be the number of ranks, {}, got {} x {}; change "
                    "one of them",
                    ranks, keys.dp_shard_size, keys.dp_replicate_size);
}

}  // namespace

RankSettings resolve_ranks(const Resolution& r) {
  const Spelled& keys = r.keys;
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
  check_parallel_sizes(r, ranks.count);
  check_split(r);
  ranks.zero_stage = zero_stage_of(keys.zero_stage);
  if (keys.dp_replicate_size > 1)
    r.note(
        fmt::format("dp_replicate_size: states are split over all {} ranks, which takes less memory than copies of "
                    "them; results are the same",
                    ranks.count));
  return ranks;
}

}  // namespace spillway::config
