#include "plan/plan_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/index.h"
#include "plan/expert_slots.h"
#include "plan/rank_share.h"
#include "plan/shown_homes.h"
#include "plan/usage.h"

namespace spillway {
namespace {

using nlohmann::ordered_json;

// The peak is the largest of all programs that share the memory; the rest describes training.
ordered_json tier_json(const Graph& graph, const Plan& plan, Tier tier, const PlanContext& context) {
  const TierPeak& peak = nth(plan.peaks, tier);
  const std::optional<int64_t> budget = context.budget.of(tier);
  int64_t most = peak.bytes;
  std::string where = peak.bytes > 0 ? describe_step(graph, plan.schedule, peak.step) : "";
  if (const PlanContext::Program* const program = context.largest_beside(plan, tier)) {
    most = nth(program->bytes, tier);
    where = program->name;
  }
  ordered_json json = {{"budget_bytes", budget ? ordered_json(*budget) : ordered_json(nullptr)},
                       {"peak_bytes", most},
                       {"lower_bound_bytes", peak.lower_bound},
                       {"peak_at", where}};
  if (context.generation)
    json["by_phase"] = {{"generation", nth(context.generation->peak_bytes, tier)}, {"training", peak.bytes}};
  const ClassBytes usage = usage_at(graph, plan.schedule, tier, peak.step);
  for (int c = 0; c < kMemoryClasses; ++c)
    json["by_kind"][std::string(name_of(static_cast<MemoryClass>(c)))] = nth(usage, c);
  return json;
}

ordered_json blocks_json(const Graph& graph, const Plan& plan, const ShownHomes& homes) {
  const Choices& choices = plan.choices;
  const std::vector<int64_t> slots = expert_slots(graph, plan.schedule);
  ordered_json json = ordered_json::array();
  for (size_t i = 0; i < choices.saved.size(); ++i) {
    const BlockHomes& block = homes.blocks[i];
    ordered_json entry = {{"block", graph.blocks[i].name},
                          {"activations", name_of(summary(choices.saved[i]))},
                          {"weights", name_of(block.weights())},
                          {name_of(ValueKind::kOptimizerState), name_of(block.state.home)},
                          {"update", name_of(block.state.site)}};
    if (slots[i] > 0) {
      entry["experts"] = name_of(block.experts.value_or(block.weights()));
      entry["expert_slots"] = slots[i];
    }
    for (int group = 0; group < kSavedGroups; ++group) {
      const auto which = static_cast<SavedGroup>(group);
      entry["saved"][std::string(name_of(which))] = name_of(nth(choices.saved[i], which));
    }
    json.push_back(std::move(entry));
  }
  return json;
}

ordered_json change_json(const PlanContext::Change& change) {
  ordered_json json = {{"change", change.text}, {"step_seconds", change.step_seconds}};
  if (!change.trains.empty()) json["trains"] = change.trains;
  for (const Tier tier : kEachBudgetedTier) json[fmt::format("{}_bytes", name_of(tier))] = nth(change.bytes, tier);
  return json;
}

// Adds the missing bytes, the values live at the peak, and the changes that would fit or the one that comes nearest.
void add_shortage(const Graph& graph, const Plan& plan, const PlanContext& context, ordered_json& json) {
  json["missing"] = ordered_json::object();
  json["alive_at_peak"] = ordered_json::array();
  for (const Tier tier : kEachBudgetedTier) {
    const int64_t missing = nth(plan.missing_bytes, tier);
    if (missing == 0) continue;
    json["missing"][std::string(name_of(tier))] = missing;
    for (const LiveBuffer& b : live_at(graph, plan.schedule, tier, nth(plan.peaks, tier).step)) {
      json["alive_at_peak"].push_back(
          {{"tier", name_of(tier)}, {"name", b.name}, {"kind", name_of(b.memory_class)}, {"bytes", b.bytes}});
    }
  }
  json["nearest"] = ordered_json::array();
  for (const PlanContext::Change& change : context.nearest) json["nearest"].push_back(change_json(change));
  if (context.least) json["least"] = change_json(*context.least);
}

ordered_json reference_json(const PlanContext::Reference& reference) {
  ordered_json copies = ordered_json::object();
  for (const Tier tier : kEachTier) {
    const int64_t bytes = nth(reference.copy_bytes, tier);
    if (bytes > 0) copies[std::string(name_of(tier))] = bytes;
  }
  return {{"text", reference.text}, {"copy_bytes", copies}};
}

// Adds the plans of the ranks, which are all alike.
void add_ranks(const Graph& graph, const Plan& plan, const PlanContext& context, ordered_json& json) {
  json["world_size"] = context.ranks;
  json["zero_stage"] = context.zero_stage;
  if (context.copies > 1) json["dp_shard_size"] = context.ranks / context.copies;
  if (context.context > 1) json["context_parallel_size"] = context.context;
  if (const auto& sums = context.host_sums) {
    const auto cost = [](const PlanContext::HostSums::Cost& one) {
      return ordered_json{{"between_hosts_bytes_per_step", one.between_hosts_bytes},
                          {"step_seconds", one.step_seconds}};
    };
    json["gradient_reduction"] = {{"is", context.sums_by_host ? "by_host" : "ordered"},
                                  {"ordered", cost(sums->ordered)},
                                  {"by_host", cost(sums->by_host)}};
  }
  const RankShare share = rank_share(graph, plan.program, context);
  ordered_json holds = ordered_json::object();
  for (const Tier tier : kEachTier) {
    for (int kind = 0; kind < kValueKinds; ++kind) {
      const int64_t bytes = nth(nth(share.holds, tier), kind);
      if (bytes > 0) holds[std::string(name_of(tier))][std::string(name_of(static_cast<ValueKind>(kind)))] = bytes;
    }
  }
  const ordered_json each = {{"ranks", {0, context.ranks - 1}},
                             {"holds", holds},
                             {"tiers", json["tiers"]},
                             {"sent_bytes_per_step", share.sent_bytes_per_step},
                             {"process_bytes", context.process_bytes}};
  json["ranks"] = ordered_json::array({each});
}

void add_order(int64_t group, ordered_json& json) {
  json["micro_batch_order"] = group > 1 ? "vertical" : "horizontal";
  if (group > 1) json["micro_batch_group"] = group;
}

ordered_json other_orders_json(const PlanContext& context) {
  ordered_json json = ordered_json::array();
  for (const PlanContext::Order& order : context.other_orders) {
    ordered_json entry;
    add_order(order.group, entry);
    entry["fits"] = order.fits;
    entry["step_seconds"] = order.step_seconds;
    for (const Tier tier : kEachBudgetedTier) entry[fmt::format("{}_bytes", name_of(tier))] = nth(order.bytes, tier);
    json.push_back(std::move(entry));
  }
  return json;
}

}  // namespace

ordered_json frontier_json(const PlanContext& context) {
  ordered_json json = ordered_json::array();
  for (const FrontierPoint& point : context.frontier) {
    ordered_json entry;
    for (const Tier tier : kEachBudgetedTier) entry[fmt::format("{}_bytes", name_of(tier))] = nth(point.bytes, tier);
    entry["step_seconds"] = context.step_seconds(point);
    add_order(point.group, entry);
    json.push_back(std::move(entry));
  }
  return json;
}

ordered_json generation_json(const PlanContext& context, const Simulation& training) {
  const PlanContext::Generation& generation = *context.generation;
  ordered_json phases = ordered_json::array();
  const auto add = [&](std::string_view name, double runs, double seconds) {
    phases.push_back({{"name", name}, {"runs", runs}, {"seconds", seconds}});
  };
  for (const PlanContext::Generation::Phase& phase : generation.phases) add(phase.name, phase.runs, phase.seconds);
  const double micro_batches = generation.micro_batches,
               updates = micro_batches / static_cast<double>(context.accumulation);
  add("training", micro_batches, micro_batches * training.micro_step_seconds);
  add("update", updates, updates * training.update_seconds);
  return {
      {"rounds", nullptr},
      {"tokens", generation.tokens},
      {"seconds", generation.seconds},
      {"tokens_per_second", generation.seconds > 0 ? static_cast<double>(generation.tokens) / generation.seconds : 0},
      {"sequences_at_once", generation.sequences_at_once},
      {"cache_bytes", generation.cache_bytes},
      {"weights", generation.is_streamed ? "streamed" : "resident"},
      {"bytes_streamed", generation.bytes_streamed},
      {"phases", phases}};
}

ordered_json plan_json(const Graph& graph, const Plan& plan, const PlanContext& context) {
  ordered_json json = {{"fits", plan.fits}};
  for (const Tier tier : kEachBudgetedTier)
    json["tiers"][std::string(name_of(tier))] = tier_json(graph, plan, tier, context);
  if (context.ranks > 1) add_ranks(graph, plan, context, json);
  if (context.process_bytes > 0) json["process"] = {{"predicted_rss_bytes", context.process_bytes}};
  if (context.reference) json["reference"] = reference_json(*context.reference);
  if (context.generation) json["generation"] = generation_json(context, plan.simulation);
  const double seconds = context.step_seconds(plan.simulation);
  json["step_seconds"] = seconds;
  json["tokens_per_second"] = static_cast<double>(graph.tokens() * context.micro_batches_of_all()) / seconds;
  json["bottleneck_lane"] = name_of(plan.simulation.bottleneck);
  add_order(context.group, json);
  if (!context.other_orders.empty()) json["other_orders"] = other_orders_json(context);
  const ShownHomes homes = shown_homes(graph, plan.choices);
  json["choices"] = blocks_json(graph, plan, homes);
  json["outer_weights"] = name_of(homes.outer_weights);
  json["tables"] = name_of(homes.tables);
  json["gradients"] = name_of(homes.gradients);
  json[std::string(name_of(ValueKind::kOptimizerState))] = name_of(homes.state.home);
  json["frontier"] = frontier_json(context);
  if (!plan.fits) add_shortage(graph, plan, context, json);
  return json;
}

}  // namespace spillway
