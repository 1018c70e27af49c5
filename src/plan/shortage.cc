#include "plan/shortage.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/index.h"
#include "plan/usage.h"

namespace spillway {
namespace {

// Returns lines like "256.6 MiB  frozen weights         272 buffers, the largest model.embed_tokens.weight (54.0 MiB)",
// most bytes first.
std::string live_text(const Graph& graph, const Plan& plan, Tier tier) {
  struct Sum {
    MemoryClass memory_class = MemoryClass::kTransient;
    int64_t bytes = 0, buffers = 0;
    LiveBuffer largest;
  };
  std::array<Sum, kMemoryClasses> sums;
  for (const LiveBuffer& buffer : live_at(graph, plan.schedule, tier, nth(plan.peaks, tier).step)) {
    Sum& sum = nth(sums, buffer.memory_class);
    sum.memory_class = buffer.memory_class;
    sum.bytes += buffer.bytes;
    if (++sum.buffers == 1) sum.largest = buffer;
  }
  std::stable_sort(sums.begin(), sums.end(), [](const Sum& x, const Sum& y) { return x.bytes > y.bytes; });
  std::string text;
  for (const Sum& sum : sums) {
    if (sum.bytes == 0) continue;
    text += fmt::format("  {:>10}  {:<17} {} {}, the largest {} ({})\n", format_bytes(sum.bytes),
                        name_of(sum.memory_class), sum.buffers, sum.buffers == 1 ? "buffer" : "buffers",
                        sum.largest.name, format_bytes(sum.largest.bytes));
  }
  return text;
}

// Returns the tiers whose budgets are too small.
std::vector<Tier> short_tiers(const Plan& plan) {
  std::vector<Tier> tiers;
  for (const Tier tier : kEachBudgetedTier) {
    if (nth(plan.missing_bytes, tier) > 0) tiers.push_back(tier);
  }
  return tiers;
}

// Returns "no change was found that fits; the least, device 1.20 GiB, is with micro_batch_size: 1". REQUIRES: it is
// known.
std::string nothing_fits(const PlanContext& context) {
  const PlanContext::Change& least = *context.least;
  return fmt::format("no change was found that fits; the least, {}, is {}", peaks_text(least.bytes),
                     least.text.empty() ? "what the config says" : "with " + least.text);
}

// Returns ", which trains something else: over weights in 4 bits" if it does, else an empty text.
std::string trains_text(const PlanContext::Change& change) {
  return change.trains.empty() ? "" : ", which trains something else: " + change.trains;
}

}  // namespace

std::string duration_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.1f} ms", 1e3 * seconds) : fmt::format("{:.2f} s", seconds);
}

std::string peaks_text(const std::array<int64_t, kBudgetedTiers>& bytes) {
  std::string text;
  for (const Tier tier : kEachBudgetedTier) {
    if (nth(bytes, tier) == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name_of(tier), format_bytes(nth(bytes, tier)));
  }
  return text;
}

std::string shortage_message(const Plan& plan, const PlanContext& context) {
  std::string where, expected, got;
  for (const Tier tier : short_tiers(plan)) {
    const std::string_view comma = where.empty() ? "" : ", ";
    where += fmt::format("{}{}", comma, nth(context.budget_keys, tier));
    expected += fmt::format("{}{}", comma, format_bytes_up(context.needed_bytes(plan, tier)));
    got += fmt::format("{}{} ({} missing)", comma, format_bytes(*context.budget.of(tier)),
                       format_bytes_up(nth(plan.missing_bytes, tier)));
  }
  const std::string advice = !context.nearest.empty()
                                 ? "set " + context.nearest.front().text + trains_text(context.nearest.front())
                             : context.least ? nothing_fits(context) + ": take a larger machine, or a smaller model"
                                             : "raise the budget, or train fewer or shorter rows at a time";
  return fmt::format("[{}] expected at least {}, the least this job can run in, got {}; {}", where, expected, got,
                     advice);
}

std::string shortage_text(const Graph& graph, const Plan& plan, const PlanContext& context) {
  std::string text;
  for (const Tier tier : short_tiers(plan)) {
    text += fmt::format("\nThis does not fit: {} of {} {} is missing. Live at the peak:\n{}",
                        format_bytes(nth(plan.missing_bytes, tier)), name_of(tier),
                        tier == Tier::kDisk ? "space" : "memory", live_text(graph, plan, tier));
  }
  if (!context.nearest.empty()) text += "\nWhat would fit:\n";
  if (context.least) text += fmt::format("\nWhat would fit: {}\n", nothing_fits(context));
  size_t width = 0;
  for (const PlanContext::Change& change : context.nearest) width = std::max(width, change.text.size());
  for (const PlanContext::Change& change : context.nearest)
    text += fmt::format("  {:<{}}  {} per step; peaks: {}{}\n", change.text, width, duration_text(change.step_seconds),
                        peaks_text(change.bytes), trains_text(change));
  return text;
}

}  // namespace spillway
