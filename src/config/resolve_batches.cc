// Batches: how many rows, in which order, and whether they share lines.
#include <algorithm>
#include <tuple>
#include <utility>

#include "base/math.h"
#include "config/resolve.h"
#include "config/values.h"

namespace spillway::config {
namespace {

bool packs(const Spelled& keys) { return keys.sample_packing || keys.packing; }

bool is_in_file_order(const Spelled& keys) {
  return keys.curriculum_sampling || keys.train_sampling_strategy == SamplingStrategy::kSequential;
}

// Throws InputError where train_sampling_strategy says another order than the switches.
void check_order(const Resolution& r) {
  const Spelled& keys = r.keys;
  constexpr const char* kStrategy = "train_sampling_strategy";
  if (!r.given(kStrategy)) return;
  for (const auto& [key, says, means] :
       {std::tuple{"curriculum_sampling", keys.curriculum_sampling, SamplingStrategy::kSequential},
        {"group_by_length", keys.group_by_length, SamplingStrategy::kGroupByLength}}) {
    if (!r.given(key) || says == (keys.train_sampling_strategy == means)) continue;
    throw input_error(r.where(kStrategy),
                      "expected the order of {}: {}, which is the same question, got {}; remove one", key, says,
                      print_value(keys.train_sampling_strategy));
  }
}

data::RowOrder order_of(const Resolution& r) {
  const Spelled& keys = r.keys;
  check_order(r);
  if (is_in_file_order(keys)) return data::RowOrder::kFile;
  const bool grouped = keys.group_by_length || keys.train_sampling_strategy == SamplingStrategy::kGroupByLength;
  if (grouped) return data::RowOrder::kGroupedByLength;
  const bool is_ktos = keys.rl == Rl::kKto && !r.given("train_sampling_strategy");  // as TRL's KTOConfig
  return is_ktos ? data::RowOrder::kFile : data::RowOrder::kShuffled;
}

// The strategy that a job packs with, if it packs.
PackingStrategy strategy_of(const Spelled& keys, LengthRules rules) {
  const bool trl = keys.packing || (!keys.sample_packing && rules == LengthRules::kTrl);
  if (trl) return keys.packing_strategy;
  return keys.sample_packing_sequentially ? PackingStrategy::kSequential : PackingStrategy::kFirstFit;
}

// A row of preferences is sequences that belong together, and a prompt is packed with nothing.
void check_unpacked(const Resolution& r) {
  const Spelled& keys = r.keys;
  for (const auto& [key, is_set] : {std::pair{"sample_packing", keys.sample_packing},
                                    {"packing", keys.packing},
                                    {"eval_sample_packing", keys.eval_sample_packing.value_or(false)}}) {
    if (!is_set) continue;
    throw input_error(r.where(key),
                      "expected false beside {}, as axolotl wants it, got true: {} are not packed; remove it",
                      keys.reward_model ? "reward_model" : "rl", is_online(keys) ? "prompts" : "preference rows");
  }
}

// Returns the micro-batches of one rank's step, from batch_size, the rows of a step, where that is given.
int64_t own_accumulation_of(const Resolution& r) {
  const Spelled& keys = r.keys;
  r.exclude("gradient_accumulation_steps", true, "batch_size", true);
  if (!keys.batch_size) return keys.gradient_accumulation_steps;
  const int64_t rows = *keys.batch_size, micro = keys.micro_batch_size;
  if (rows % micro != 0) {
    throw input_error(r.where("batch_size"), "expected a multiple of micro_batch_size, {}, got {}; change one of them",
                      micro, rows);
  }
  // As axolotl. DeepSpeed's train_batch_size comes here, too; its programs have a micro-batch of their own.
  if (!r.given("micro_batch_size") && r.loaded.spelled.contains("batch_size")) {
    throw input_error(r.where("batch_size"),
                      "expected micro_batch_size beside it, got neither that nor gradient_accumulation_steps; set "
                      "micro_batch_size");
  }
  return rows / micro;
}

// A prompt is not a row of a micro-batch, and a stream has no last one.
bool drops_last(const Resolution& r) {
  if (!r.keys.dataloader_drop_last) return false;
  constexpr const char* kKey = "dataloader_drop_last";
  if (is_online(r.keys)) {
    r.ignore(kKey, "rounds of completions are whole in any case, as in TRL");
    return false;
  }
  if (!r.keys.streaming && r.keys.pretraining_dataset.empty()) return true;
  r.ignore(kKey, "a stream has no last micro-batch");
  return false;
}

// The seed of TRL's samplers of prompts is `seed` in any case.
uint64_t order_seed(const Resolution& r) {
  const Spelled& keys = r.keys;
  if (is_online(keys) && keys.rl != Rl::kOnlineDpo)
    r.ignore("data_seed", "prompts come in the order of seed, as in TRL");
  return static_cast<uint64_t>(is_online(keys) ? keys.seed : keys.data_seed.value_or(keys.seed));
}

// Longer rows of an evaluation: fewer of them have the room of a micro-batch.
void take_eval_length(const BatchSettings& batches, data::DataSettings& data) {
  if (data.eval_sequence_len == 0) return;
  data::BatchOptions& options = data.evaluation_batches;
  options.sequence_len = data.eval_sequence_len;
  options.rows = std::clamp<int64_t>(batches.tokens() / data.eval_sequence_len, 1, options.rows);
}

// Returns the micro-batches of a step: those of all groups of ranks, or of a rank that is alone those of the ranks that
// the config has for rows of their own.
int64_t accumulation_of(const Resolution& r, const RankSettings& settings) {
  const int64_t count = settings.count;
  const int64_t own = own_accumulation_of(r);
  const int64_t shards = std::max<int64_t>(1, r.keys.dp_shard_size.value_or(1));
  const int64_t ranks = count > 1 ? settings.groups() : shards * r.keys.dp_replicate_size;
  if (ranks == 1) return own;
  constexpr int64_t kMost = 1 << 20;
  if (ranks > kMost / own) {
    const char* const key = count > 1                  ? "num_processes"
                            : r.given("dp_shard_size") ? "dp_shard_size"
                                                       : "dp_replicate_size";
    throw input_error(r.where(key),
                      "expected at most {} micro-batches in a step, got {} ranks of {}; lower one of them", kMost,
                      ranks, own);
  }
  if (count > 1) return own * ranks;
  r.note(
      fmt::format("dp_shard_size x dp_replicate_size: the micro-batches of {} ranks make a step, and one rank "
                  "accumulates them: {} in all",
                  ranks, own * ranks));
  return own * ranks;
}

constexpr int64_t kMostTogether = 16;  // as micro_batch_group

// Returns the numbers of micro-batches that may go together, the largest first: of equal parts of a step, each with
// twice as many parts as the one before.
std::vector<int64_t> groups_of(int64_t accumulation) {
  std::vector<int64_t> groups;
  for (int64_t parts = div_ceil(accumulation, kMostTogether); parts < accumulation; parts *= 2)
    groups.push_back(div_ceil(accumulation, parts));
  return groups;
}

// Sets how many micro-batches of a rank's step are computed together, layer by layer: the number that is planned first,
// 1 for one after another, and those that the plan may choose in its place.
void take_groups(const Resolution& r, const RankSettings& ranks, BatchSettings& batches) {
  constexpr const char *kOrder = "micro_batch_order", *kGroup = "micro_batch_group";
  const MicroBatchOrder order = r.keys.micro_batch_order;
  const std::optional<int64_t>& group = r.keys.micro_batch_group;
  const int64_t accumulation = div_ceil(batches.gradient_accumulation_steps, ranks.groups());
  if (group && order == MicroBatchOrder::kHorizontal)
    throw input_error(r.where(kGroup),
                      "expected micro_batch_order: vertical or auto beside it, got horizontal; write one of them, or "
                      "remove the key");
  if (group && *group > accumulation) {
    throw input_error(r.where(kGroup),
                      "expected at most the micro-batches of a step, {}, got {}; lower it, or raise {}", accumulation,
                      *group, r.keys.batch_size ? "batch_size" : "gradient_accumulation_steps");
  }
  const bool is_vertical = order == MicroBatchOrder::kVertical;
  if (accumulation == 1 && is_vertical)
    r.note(fmt::format("{}: a step has one micro-batch, for which vertical is horizontal", kOrder));
  if (is_vertical || (order == MicroBatchOrder::kAuto && r.keys.memory_plan == PlanMode::kAuto))
    batches.forward_group = group.value_or(kMostTogether);
  if (accumulation == 1 || order == MicroBatchOrder::kHorizontal) return;
  std::vector<int64_t> groups = group ? std::vector{*group} : groups_of(accumulation);
  if (is_vertical) {
    batches.micro_batch_group = groups.front();
    groups.erase(groups.begin());
  }
  if (r.keys.memory_plan == PlanMode::kAuto) {
    batches.other_groups = std::move(groups);
  } else if (group && !is_vertical) {
    r.ignore(kGroup, "a plan that is fixed takes one micro-batch after another; write micro_batch_order: vertical");
  }
}

}  // namespace

BatchSettings resolve_batches(const Resolution& r, const RankSettings& ranks, const data::DataSettings& data) {
  const Spelled& keys = r.keys;
  const data::RowOptions& rows = data.rows;
  BatchSettings batches{.micro_batch_size = keys.micro_batch_size,
                        .gradient_accumulation_steps = accumulation_of(r, ranks),
                        .sequence_len = rows.sequence_len,
                        .length_key = keys.max_length ? "max_length" : "sequence_len",
                        .eval_sequence_len = data.eval_sequence_len};
  take_groups(r, ranks, batches);
  if (keys.tiled_mlp == AutoBool::kTrue) {
    batches.mlp_tiles = keys.tiled_mlp_num_shards.value_or(0);
    const int64_t tokens = batches.micro_batch_size * batches.sequence_len;
    if (batches.mlp_tiles > tokens)
      throw input_error(r.where("tiled_mlp_num_shards"),
                        "expected at most the tokens of a micro-batch, {}, got {}; lower it", tokens,
                        batches.mlp_tiles);
  } else {
    r.ignore("tiled_mlp_num_shards", "without tiled_mlp: true there are no tiles");
  }
  if (data.eval_sequence_len > batches.micro_batch_size * batches.sequence_len)
    r.note(
        fmt::format("eval_sequence_len: {} tokens of a row to evaluate on are more than a micro-batch of training "
                    "has, {}: the memory of a step is that of so many",
                    data.eval_sequence_len, batches.micro_batch_size * batches.sequence_len));
  if (keys.eval_batch_size.value_or(0) > keys.micro_batch_size) {
    r.note(fmt::format(
        "eval_batch_size: {} is {}, as micro_batch_size: an evaluation has the memory of a training step{}",
        *keys.eval_batch_size, keys.micro_batch_size,
        keys.dataloader_drop_last ? "; dataloader_drop_last leaves out the rows behind the last batch of so many"
                                  : ""));
  }
  if (has_preferences(keys) || is_online(keys)) check_unpacked(r);
  r.exclude("sample_packing", keys.sample_packing, "packing", keys.packing);
  r.exclude("curriculum_sampling", keys.curriculum_sampling, "group_by_length", keys.group_by_length);
  r.exclude("sample_packing", keys.sample_packing, "padding_free", keys.padding_free == AutoBool::kTrue);
  batches.is_padding_free = packs(keys) || keys.padding_free == AutoBool::kTrue;
  // Packing by TRL's rules keeps rows of one token, and splits off more.
  batches.has_single_tokens = keys.packing || ((keys.sample_packing || keys.eval_sample_packing.value_or(false)) &&
                                               rows.length_rules == LengthRules::kTrl);
  return batches;
}

void resolve_packing(const Resolution& r, const BatchSettings& batches, data::DataSettings& data) {
  const Spelled& keys = r.keys;
  const PackingStrategy strategy = strategy_of(keys, data.rows.length_rules);
  data.batches = {.rows = batches.micro_batch_size,
                  .sequence_len = batches.sequence_len * data::sequences_of(data.rows.objective),
                  .packing_scope_rows = keys.packing_scope == PackingScope::kBatch ? data::kMapBatchRows : 0,
                  .line_rows = keys.sample_packing_bin_size,
                  .shuffle_before_packing = keys.packing && keys.shuffle_merged_datasets.value_or(false),
                  .packing_seed = static_cast<uint64_t>(keys.seed),
                  .order = order_of(r),
                  .step_batches = batches.gradient_accumulation_steps,
                  .drops_last = drops_last(r),
                  .seed = order_seed(r)};
  if (packs(keys)) data.batches.packing = strategy;
  data.evaluation_batches = data.batches;
  // Such rows stay in the micro-batches of training, as in TRL.
  if (lends_completions(keys)) {
    r.ignore("eval_batch_size", "an evaluation of kto has the micro-batches of training");
  } else {
    data.evaluation_batches.rows = std::min(data.batches.rows, keys.eval_batch_size.value_or(data.batches.rows));
  }
  data.evaluation_batches.order = data::RowOrder::kFile;
  take_eval_length(batches, data);
  data.evaluation_batches.packing.reset();
  if (keys.eval_sample_packing.value_or(packs(keys))) data.evaluation_batches.packing = strategy;
  if (data.batches.packing || data.evaluation_batches.packing) return;
  for (const char* key : {"sample_packing_bin_size", "sample_packing_sequentially", "packing_strategy"})
    r.ignore(key, "rows are not packed");
}

bool shuffles_stream(const Resolution& r, LengthRules rules) {
  // By TRL's rules a stream keeps its order unless told otherwise.
  return !is_in_file_order(r.keys) && r.keys.shuffle_merged_datasets.value_or(rules == LengthRules::kAxolotl);
}

}  // namespace spillway::config
