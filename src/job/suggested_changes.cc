#include "job/suggested_changes.h"

#include "base/bytes.h"
#include "base/index.h"
#include "base/math.h"
#include "job/offload_policy.h"
#include "model/decoder/layer.h"
#include "ops/optimizers/optimizer.h"

namespace spillway::train {
namespace {

constexpr int64_t kMostTimes = 16;  // as many ranks

// Returns true if device and host are the same RAM.
bool has_one_ram(const Machine& machine) { return nth(machine.capacity_bytes, Tier::kHost) == 0; }

int64_t free_bytes(const Machine& machine, Tier tier) {
  const bool is_shared = tier == Tier::kHost && has_one_ram(machine);
  return nth(machine.capacity_bytes, is_shared ? Tier::kDevice : tier);
}

class ChangeFinder {
 public:
  ChangeFinder(const config::LoadedConfig& loaded, const Job& job, const Plan& plan, const Machine& machine)
      : loaded_(loaded), job_(job), config_(loaded.config), plan_(plan), machine_(machine) {}

  std::vector<SuggestedChange> all() {
    add_plan();
    add_recomputation();
    add_groups();
    add_tier(Tier::kDisk, usable_bytes(free_bytes(machine_, Tier::kDisk)));
    add_homes();
    add_ranks();
    add_rows();
    add_tiles();
    // If both are the same RAM, a host budget gains no more than a device budget, which is always offered.
    if (!has_one_ram(machine_)) add_tier(Tier::kHost, usable_bytes(free_bytes(machine_, Tier::kHost)));
    if (SuggestedChange shorter = job_.kind->shorter_rows(loaded_, job_); !shorter.grades.empty())
      suggestions_.push_back(std::move(shorter));
    add_four_bits();
    add_state_in_8bit();
    return std::move(suggestions_);
  }

 private:
  [[nodiscard]] std::string spelled(const std::string& key) const { return spelled_key(loaded_, key); }

  void add_plan() {
    if (config_.offload.plan == config::PlanMode::kFixed)
      suggestions_.push_back({.grades = {{{spelled("memory.plan"), "auto"}}}});
  }

  void add_recomputation() {
    const Policy& policy = job_.policy;
    const bool is_open = !policy[SavedGroup::kAttention] && !policy[SavedGroup::kProduct] &&
                         !policy[SavedGroup::kElementwise];  // so the plan has tried it
    if (is_open || config_.offload.gradient_checkpointing == true) return;
    suggestions_.push_back({.grades = {{{spelled("gradient_checkpointing"), "true"}}}});
  }

  // Offers feed-forward parts in tiles, which cost less than shorter rows.
  void add_tiles() {
    if (job_.graph.model.mlp_tiles == 1) suggestions_.push_back({.grades = {{{spelled("tiled_mlp"), "true"}}}});
  }

  // Offers smaller groups of micro-batches, unless the plan has tried them, and then one micro-batch after another.
  void add_groups() {
    const int64_t group = config_.batches.micro_batch_group;
    if (group == 1) return;
    const bool is_given = loaded_.given.contains("micro_batch_group");
    const bool has_tried = !config_.batches.other_groups.empty();
    SuggestedChange suggestion;
    for (int64_t smaller = group - 1; !has_tried && smaller > 1; --smaller)
      suggestion.grades.push_back({{spelled("micro_batch_group"), fmt::format("{}", smaller)}});
    Overrides& horizontal = suggestion.grades.emplace_back();
    if (is_given) horizontal.push_back({spelled("micro_batch_group"), "null"});
    horizontal.push_back({spelled("micro_batch_order"), "horizontal"});
    suggestions_.push_back(std::move(suggestion));
  }

  void add_tier(Tier tier, int64_t free) {
    const int64_t has = job_.budget.of(tier).value_or(0);
    if (nth(plan_.missing_bytes, tier) > 0 || free < has + kMiB) return;
    suggestions_.push_back({.grades = {{budget_of(job_, tier, free / kMiB * kMiB)}},
                            .is_enough_alone = config_.offload.plan == config::PlanMode::kAuto,
                            .opens = tier});
  }

  // Offers to move a part to the next tier below `home`, or to the one after it; or lets the plan choose by `choice` if
  // no single tier holds all of it or there is no lower tier. For parts that the plan may not move by itself.
  void add_home(const std::string& key, std::optional<Tier> home, std::string_view host,
                config::ConfigOverride choice) {
    if (!home || nth(plan_.missing_bytes, *home) == 0) return;
    const auto is_free = [&](Tier tier) {
      return tier != *home && nth(plan_.missing_bytes, tier) == 0 && nth(machine_.capacity_bytes, tier) > 0;
    };
    SuggestedChange suggestion;
    if (is_free(Tier::kHost)) suggestion.grades.push_back({{spelled(key), std::string(host)}});
    if (is_free(Tier::kDisk)) suggestion.grades.push_back({{spelled(key), "disk"}});
    if (config_.offload.plan == config::PlanMode::kAuto) suggestion.grades.push_back({std::move(choice)});
    if (!suggestion.grades.empty()) suggestions_.push_back(std::move(suggestion));
  }

  void add_homes() {
    const Policy& policy = job_.policy;
    const bool has_adapter = config_.adapter.has_value();
    // Some keys have a value for it; others must be left out.
    const auto choice = [&](const std::string& key, const char* word) {
      return config::ConfigOverride{spelled(key), word};
    };
    const auto home = [&](ValueKind kind) { return policy.home_of({.kind = kind, .block = 0}); };
    add_home("optimizer_offload", home(ValueKind::kOptimizerState), "host", choice("optimizer_offload", "auto"));
    add_home("gradient_offload", home(ValueKind::kGradient), "host", choice("gradient_offload", "auto"));
    add_home(has_adapter ? "layer_offloading" : "parameter_offload",
             home(has_adapter ? ValueKind::kFrozenWeight : ValueKind::kTrainableWeight), "host",
             has_adapter && loaded_.given.contains("layer_offloading") ? choice("layer_offloading", "null")
                                                                       : choice("parameter_offload", "auto"));
    if (has_mixture(*job_.model) && !config_.offload.experts)
      suggestions_.push_back({.grades = {{choice("expert_offload", "auto")}}});
    if (const std::optional<ActivationPolicy> saved = policy[SavedGroup::kBoundary]) {
      const Tier tier = *saved == ActivationPolicy::kHost   ? Tier::kHost
                        : *saved == ActivationPolicy::kDisk ? Tier::kDisk
                                                            : Tier::kDevice;
      add_home("activation_offloading", tier, "true", choice("activation_offloading", "null"));
    }
  }

  // Offers two, four, ... times as many ranks, with fewer micro-batches on each, so that a step stays what it is.
  void add_ranks() {
    const config::BatchSettings& batches = config_.batches;
    const int64_t ranks = config_.ranks.count;
    const bool has_no_more = machine_.device == DeviceKind::kCuda && machine_.ranks_per_host == 0;  // GPUs, here
    // A run of one rank starts others only if num_processes is given, and the other keys divide a number of ranks that
    // is given.
    const auto is_given = [&](const char* key) { return loaded_.given.contains(key); };
    const bool is_alone = ranks == 1 && (!is_given("num_processes") || is_given("dp_shard_size") ||
                                         is_given("dp_replicate_size") || is_given("context_parallel_size"));
    if (is_alone || has_no_more || is_given("batch_size") || job_.kind->generation(job_).at_once > 0) return;
    const std::string key = spelled(is_given("num_gpus") ? "num_gpus" : "num_processes");
    SuggestedChange suggestion;
    const int64_t context = config_.ranks.context;
    for (int64_t more = 2 * ranks; batches.gradient_accumulation_steps % (more / context) == 0; more *= 2)
      suggestion.grades.push_back({{key, fmt::format("{}", more)},
                                   {spelled("gradient_accumulation_steps"),
                                    fmt::format("{}", batches.gradient_accumulation_steps / (more / context))}});
    if (suggestion.grades.empty()) {  // each has one micro-batch already
      suggestion.trains = "on more rows in a step";
      for (int64_t more = 2 * ranks; more <= kMostTimes * ranks; more *= 2)
        suggestion.grades.push_back({{key, fmt::format("{}", more)}});
    }
    suggestions_.push_back(std::move(suggestion));
  }

  // Increases accumulation by the same factor, so that a step has the same rows.
  void add_rows() {
    SuggestedChange suggestion;
    const config::BatchSettings& batches = config_.batches;
    for (int64_t rows = batches.micro_batch_size / 2; rows >= 1; --rows) {
      if (batches.micro_batch_size % rows != 0) continue;
      Overrides& change = suggestion.grades.emplace_back();
      change.push_back({spelled("micro_batch_size"), fmt::format("{}", rows)});
      if (loaded_.given.contains("batch_size")) continue;  // of which accumulation follows
      const int64_t parts = batches.micro_batch_size / rows;
      change.push_back(
          {spelled("gradient_accumulation_steps"), fmt::format("{}", micro_batches_of_rank(job_) * parts)});
      job_.kind->add_to_smaller_batches(loaded_, parts, change);
    }
    if (!suggestion.grades.empty()) suggestions_.push_back(std::move(suggestion));
  }

  void add_last_resort(Overrides change, std::string_view trains) {
    suggestions_.push_back({.grades = {std::move(change)}, .trains = trains, .is_last_resort = true});
  }

  // Offers 4-bit weights for the base of an adapter, which takes most of its memory.
  void add_four_bits() {
    const std::optional<config::QuantisationSettings>& now = config_.quantisation;
    const bool is_wider = !now || now->coding == WeightCoding::kInt8;
    if (!config_.adapter || !is_wider) return;
    Overrides change;
    if (now) change.push_back({spelled("load_in_8bit"), "false"});
    change.push_back({spelled("load_in_4bit"), "true"});
    add_last_resort(std::move(change), "over weights in 4 bits");
  }

  // Offers 8-bit moments for full fine-tuning, in which moments take most of the memory.
  void add_state_in_8bit() {
    const std::string coded = fmt::format("{}_8bit", config_.optimizer.optimizer.name);
    if (config_.adapter || !ops::find_optimizer(coded)) return;
    // A paged name means that the plan chooses where the state lives; that stays so.
    const bool paged = config_.offload.home_of(ValueKind::kOptimizerState) == config::Offload::kAuto;
    add_last_resort({{spelled("optimizer"), (paged ? "paged_" : "") + coded}}, "with moments in 8 bits");
  }

  const config::LoadedConfig& loaded_;
  const Job& job_;
  const config::Config& config_;
  const Plan& plan_;
  const Machine& machine_;
  std::vector<SuggestedChange> suggestions_;
};

}  // namespace

std::string spelled_key(const config::LoadedConfig& loaded, const std::string& key) {
  const auto found = loaded.spelled.find(key);
  return found == loaded.spelled.end() ? key : found->second;
}

std::vector<SuggestedChange> suggested_changes(const config::LoadedConfig& loaded, const Job& job, const Plan& plan,
                                               const Machine& machine) {
  return ChangeFinder(loaded, job, plan, machine).all();
}

Overrides raised_budgets(const Job& job, const std::array<int64_t, kTiers>& missing_bytes, const Machine& machine) {
  Overrides overrides;
  for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kDisk}) {
    const int64_t missing = nth(missing_bytes, tier);
    if (missing == 0) continue;
    const std::optional<int64_t> budget = job.budget.of(tier);
    if (!budget || align_up(*budget + missing, kMiB) > free_bytes(machine, tier)) return {};
    overrides.push_back(budget_of(job, tier, *budget + missing));
  }
  return overrides;
}

config::ConfigOverride budget_of(const Job& job, Tier tier, int64_t bytes) {
  return {nth(budget_keys(job.config.memory), tier), fmt::format("{}MiB", div_ceil(bytes, kMiB))};
}

}  // namespace spillway::train
