#include "plan/print.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/index.h"
#include "base/sizes.h"
#include "base/utf8.h"
#include "plan/block_runs.h"
#include "plan/moved_bytes.h"
#include "plan/rank_share.h"
#include "plan/shortage.h"
#include "plan/usage.h"

namespace spillway {
namespace {

constexpr size_t kColumns = 80;  // of a terminal

// Breaks lines that are wider than a terminal between words and indents the continuation. A word that is longer than a
// line stays whole.
std::string folded(std::string_view text) {
  constexpr std::string_view kIndent = "         ";
  std::string result, line;
  const auto fold = [&](std::string_view rest) {
    while (count_characters(rest) > kColumns) {
      size_t end = std::string_view::npos, columns = 0;
      const size_t begin = std::min(rest.find_first_not_of(' '), rest.size());
      for (size_t i = 0; i < rest.size(); ++i) {
        columns += (rest[i] & 0xC0) != 0x80 ? 1 : 0;
        if (columns > kColumns + 1 && end != std::string_view::npos) break;
        if (rest[i] == ' ' && i > begin) end = i;
      }
      if (end == std::string_view::npos) break;
      result.append(rest.substr(0, rest.find_last_not_of(' ', end) + 1)).append("\n");
      line = std::string(kIndent).append(rest.substr(rest.find_first_not_of(' ', end)));
      rest = line;
    }
    result.append(rest);
  };
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    fold(text.substr(0, end));
    if (end < text.size()) result += '\n';
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return result;
}

std::string mib(int64_t bytes) { return fmt::format("{:.1f}", static_cast<double>(bytes) / 0x1p20); }

// Shortens to at most `columns` characters by leaving out the middle: names of weights are long, and their ends tell
// most.
std::string shortened(const std::string& text, size_t columns) {
  if (text.size() <= columns) return text;
  const size_t head = (columns - 3) / 2;
  return text.substr(0, head) + "..." + text.substr(text.size() - (columns - 3 - head));
}

// Returns "attention kept, product and elementwise recomputed", or "activations kept" if all groups are treated alike.
std::string saved_text(const BlockChoice& choice, const Residency& usual_state) {
  const Saved& saved = choice.saved;
  const Residency& state = choice.homes.state;
  static constexpr std::string_view kWords[] = {"kept", "recomputed", "-> host", "-> disk"};  // by ActivationPolicy
  constexpr ActivationPolicy kOrder[] = {ActivationPolicy::kKeep, ActivationPolicy::kHost, ActivationPolicy::kDisk,
                                         ActivationPolicy::kRecompute};
  constexpr SavedGroup kInner[] = {SavedGroup::kAttention, SavedGroup::kProduct, SavedGroup::kElementwise};
  std::string text;
  for (const ActivationPolicy activation_policy : kOrder) {
    std::string names;
    size_t groups = 0;
    for (const SavedGroup group : kInner) {
      if (nth(saved, group) != activation_policy) continue;
      names += fmt::format("{}{}", names.empty() ? "" : " and ", name_of(group));
      ++groups;
    }
    if (groups == 0) continue;
    if (groups == std::size(kInner)) names = "activations";
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", names, nth(kWords, activation_policy));
  }
  const ActivationPolicy boundary = nth(saved, SavedGroup::kBoundary);
  if (boundary != ActivationPolicy::kKeep && boundary != nth(saved, SavedGroup::kAttention))
    text += fmt::format(", boundary {}", nth(kWords, boundary));
  const Tier weights = choice.homes.weights();
  if (weights != Tier::kDevice) text += fmt::format(", weights on {}", name_of(weights));
  if (const Tier experts = choice.homes.experts.value_or(weights); experts != weights)
    text += fmt::format(", experts on {}", name_of(experts));
  if (state.home != usual_state.home) text += fmt::format(", optimizer state on {}", name_of(state.home));
  if (state.home != Tier::kDevice && state.site != usual_state.site) text += ", update on device";
  return text;
}

// Returns a line for each run of blocks with the same choice, or with a few choices in turn:
//     layers   0-10   activations recomputed
//              11-29  12 of 19: activations kept
//                     7 of 19: attention kept, product and elementwise recomputed
std::string layers_text(const std::vector<Saved>& saved, const ShownHomes& homes) {
  std::vector<BlockChoice> blocks;
  for (size_t i = 0; i < saved.size(); ++i) blocks.push_back({saved[i], homes.blocks[i]});
  std::vector<std::pair<std::string, std::string>> rows;
  for (const BlockRun& run : runs_of(blocks)) {
    const size_t count = run.end - run.begin;
    std::string range = count == 1 ? fmt::format("{}", run.begin) : fmt::format("{}-{}", run.begin, run.end - 1);
    for (const auto& [kind, of_kind] : run.kinds) {
      const std::string share = run.kinds.size() == 1 ? "" : fmt::format("{} of {}: ", of_kind, count);
      rows.emplace_back(std::exchange(range, ""), share + saved_text(kind, homes.state));
    }
  }
  if (rows.empty()) return "layers   none\n";
  std::string text;
  size_t width = 0;
  for (const auto& row : rows) width = std::max(width, row.first.size());
  for (const auto& [range, choice] : rows)
    text += fmt::format("{:<9}{:<{}}  {}\n", text.empty() ? "layers" : "", range, width, choice);
  return text;
}

std::string reference_text(const PlanContext::Reference& reference) {
  std::string copies;
  for (const Tier tier : kEachTier) {
    const int64_t bytes = nth(reference.copy_bytes, tier);
    if (bytes > 0)
      copies += fmt::format("{}{} in {}", copies.empty() ? ": " : ", ", format_bytes(bytes), name_of(tier));
  }
  return fmt::format("reference  {}{}\n", reference.text, copies);
}

// Lists each tier with the job's peak and its step; then the live bytes at training's peak, by sums of kinds.
std::string tiers_text(const Graph& graph, const Plan& plan, const PlanContext& context) {
  constexpr size_t kAtColumns = kColumns - 33;
  std::string peaks = fmt::format("{:<8} {:<11} {:<11} {}\n", "tier", "budget", "peak", "at");
  std::string live = fmt::format("{:<8} {:>8}  {:>15}  {:>9}  {:>8}  {:>8}\n", "tier", "weights", "trainable+state",
                                 "gradients", "saved", "working");
  std::string_view there = "then lives there";
  for (const Tier tier : kEachBudgetedTier) {
    const TierPeak& peak = nth(plan.peaks, tier);
    const PlanContext::Program* const beside = context.largest_beside(plan, tier);
    if (tier != Tier::kDevice && peak.bytes == 0 && beside == nullptr) continue;
    if (beside != nullptr) there = "at training's own peak lives";
    const std::string at = beside ? beside->name : describe_step(graph, plan.schedule, peak.step);
    const ClassBytes bytes = usage_at(graph, plan.schedule, tier, peak.step);
    const auto sum = [&](std::initializer_list<MemoryClass> classes) {
      int64_t all = 0;
      for (const MemoryClass c : classes) all += nth(bytes, c);
      return mib(all);
    };
    const std::optional<int64_t> budget = context.budget.of(tier);
    peaks += fmt::format("{:<8} {:<11} {:<11} {}\n", name_of(tier), budget ? format_bytes(*budget) : "no limit",
                         format_bytes(beside ? nth(beside->bytes, tier) : peak.bytes), shortened(at, kAtColumns));
    live += fmt::format("{:<8} {:>8}  {:>15}  {:>9}  {:>8}  {:>8}\n", name_of(tier), sum({MemoryClass::kFrozenWeight}),
                        sum({MemoryClass::kTrainableWeight, MemoryClass::kOptimizerState}),
                        sum({MemoryClass::kGradient}), sum({MemoryClass::kSavedActivation}),
                        sum({MemoryClass::kTransient, MemoryClass::kBatch, MemoryClass::kCache}));
  }
  return fmt::format("{}\n{}, in MiB\n{}", peaks, there, live);
}

std::string comparison(const Plan& plan, const PlanContext& context) {
  // There is nothing to say about device memory if only another tier is too small.
  if (context.frontier.size() < 2 || (!plan.fits && nth(plan.missing_bytes, Tier::kDevice) == 0)) return "";
  // Each plan of the frontier would give the programs beside it other memory, too.
  const char* const job = context.largest_beside(plan, Tier::kDevice) ? "training" : "this job";
  const int64_t peak = nth(plan.peaks, Tier::kDevice).bytes;
  const FrontierPoint& most = context.frontier.front();
  int64_t least = context.frontier.back().device_bytes();
  double min_seconds = context.step_seconds(context.frontier.back());
  if (!plan.fits || peak < least) {
    // If nothing fits, the error names this number, too.
    least = plan.fits ? peak : context.needed_bytes(plan, Tier::kDevice);
    min_seconds = context.step_seconds(plan.simulation);
  }
  if (peak >= most.device_bytes())
    return fmt::format("the least {} can run in is {} ({} per step)\n", job, format_bytes_up(least),
                       duration_text(min_seconds));
  return fmt::format("without a budget {} would peak at {} and take {};\nthe least it can run in is {} ({})\n", job,
                     format_bytes(most.device_bytes()), duration_text(context.step_seconds(most)),
                     format_bytes_up(least), duration_text(min_seconds));
}

// Returns a line for each plan of the frontier and for this one, with its step as a multiple of the fastest and a bar
// as long:
//     903.0 MiB      2.21 s   1.00x  ####################
//     398.6 MiB      2.71 s   1.23x  #########################  this plan
// A plan that takes several micro-batches through a layer together has "vertical 4" before that.
std::string frontier_text(const Plan& plan, const PlanContext& context) {
  if (context.frontier.size() < 2) return "";
  struct Row {
    int64_t bytes = 0;
    double seconds = 0;
    int64_t group = 1;
    bool is_this = false;
  };
  std::vector<Row> rows;
  if (plan.fits)
    rows.push_back({nth(plan.peaks, Tier::kDevice).bytes, context.step_seconds(plan.simulation), context.group, true});
  for (const FrontierPoint& point : context.frontier) {
    const Row row{point.device_bytes(), context.step_seconds(point), point.group};
    const bool is_this = plan.fits && row.bytes == rows[0].bytes && row.seconds == rows[0].seconds;
    if (!is_this) rows.push_back(row);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.bytes > b.bytes; });
  const double most = std::max_element(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
                        return a.seconds < b.seconds;
                      })->seconds;
  const double least = std::min_element(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
                         return a.seconds < b.seconds;
                       })->seconds;
  constexpr double kBar = 30;
  std::string text = fmt::format("frontier: the fastest step for each amount of device memory{}\n",
                                 context.largest_beside(plan, Tier::kDevice) ? " that training takes" : "");
  for (const Row& row : rows) {
    const auto length = static_cast<int64_t>(most > 0 ? kBar * row.seconds / most + 0.5 : 0);
    text += fmt::format("  {:>11}  {:>12}  {:>6.2f}x  {}{}{}\n", format_bytes(row.bytes), duration_text(row.seconds),
                        least > 0 ? row.seconds / least : 1, repeated('#', length),
                        row.group > 1 ? fmt::format("  vertical {}", row.group) : "", row.is_this ? "  this plan" : "");
  }
  return text;
}

// Returns "moves    host_to_device 212.3 MiB    device_to_host 212.3 MiB per step".
std::string moves_text(const Graph& graph, const Plan& plan, const PlanContext& context) {
  const MovedBytes moved = moved_bytes(graph, plan.program, context);
  std::string text;
  for (const Lane lane : kEachLane) {
    const ClassBytes& classes = nth(moved, lane);
    const int64_t bytes = std::accumulate(classes.begin(), classes.end(), int64_t{0});
    if (bytes > 0)
      text += fmt::format("{}{} {}", text.empty() ? "moves    " : "    ", name_of(lane), format_bytes(bytes));
  }
  return text.empty() ? "" : text + " per step\n";
}

// Lists the programs that run between training's sections in the same memory, if the job has more than evaluation, or
// if one needs more than training does or takes several micro-batches together.
std::string beside_text(const Plan& plan, const PlanContext& context) {
  const auto needs_more = [&](const PlanContext::Program& program) {
    return std::any_of(kEachBudgetedTier.begin(), kEachBudgetedTier.end(),
                       [&](Tier tier) { return nth(program.bytes, tier) > nth(plan.peaks, tier).bytes; });
  };
  std::string text;
  for (const PlanContext::Program& program : context.beside) {
    const std::string together = program.group > 1 ? fmt::format(", {} micro-batches in a layer", program.group) : "";
    if (context.beside.size() > 1 || needs_more(program) || program.group > 1)
      text += fmt::format("beside   {}{}: {}\n", program.name, together, peaks_text(program.bytes));
  }
  return text;
}

std::string generation_text(const PlanContext::Generation& generation) {
  return fmt::format("round    {} tokens in {} predicted: {} sequences at once, weights {}\n", generation.tokens,
                     duration_text(generation.seconds), generation.sequences_at_once,
                     generation.is_streamed
                         ? fmt::format("streamed, {} in all", format_bytes(generation.bytes_streamed))
                         : "resident");
}

// Says what the order of the ranks' gradients costs between hosts, and what the other one would.
std::string host_sums_text(const PlanContext::HostSums& sums, bool is_by_host) {
  const PlanContext::HostSums::Cost &own = is_by_host ? sums.by_host : sums.ordered,
                                    &other = is_by_host ? sums.ordered : sums.by_host;
  return fmt::format(
      "hosts    of {} ranks; gradient_reduction: {} sends {} of gradients from each rank to other hosts per step; {} "
      "would send {}, and take {} a step\n",
      sums.together, is_by_host ? "by_host" : "ordered", format_bytes(own.between_hosts_bytes),
      is_by_host ? "ordered" : "by_host", format_bytes(other.between_hosts_bytes), duration_text(other.step_seconds));
}

std::string ranks_text(const Graph& graph, const Plan& plan, const PlanContext& context) {
  if (context.ranks == 1) return "";
  const RankShare share = rank_share(graph, plan.program, context);
  const auto held = [&](ValueKind kind) {
    int64_t bytes = 0;
    for (const auto& of_tier : share.holds) bytes += nth(of_tier, kind);
    return format_bytes(bytes);
  };
  const std::string text = fmt::format(
      "ranks    {} with zero_stage {}{}{}; each holds optimizer state {}, sums of gradients {}, and sends {} per "
      "step\n",
      context.ranks, context.zero_stage,
      context.copies > 1 ? fmt::format(" over {} of them", context.ranks / context.copies) : "",
      context.context > 1 ? fmt::format(", {} of them sharing each sequence", context.context) : "",
      held(ValueKind::kOptimizerState), held(ValueKind::kGradient), format_bytes(share.sent_bytes_per_step));
  return text + (context.host_sums ? host_sums_text(*context.host_sums, context.sums_by_host) : "");
}

// Says the order of the micro-batches unless nothing else was considered, and what the other orders would cost.
std::string order_text(const PlanContext& context) {
  if (context.group == 1 && context.other_orders.empty()) return "";
  std::string text = "order    horizontal, one micro-batch after another";
  if (context.group > 1)
    text = fmt::format("order    vertical, {} micro-batches in a layer before the next", context.group);
  std::string others;
  for (const PlanContext::Order& other : context.other_orders) {
    others += fmt::format("{}{} {}", others.empty() ? ";\n         instead " : ", ",
                          other.group == 1 ? "horizontal" : fmt::format("groups of {}", other.group),
                          other.fits ? duration_text(other.step_seconds) : "would not fit");
  }
  return text + others + "\n";
}

// Returns an empty text if all of it is on the device.
std::string outside_text(const ShownHomes& homes) {
  const Tier tables = homes.tables, others = homes.outer_weights;
  if (tables == others)
    return others == Tier::kDevice ? ""
                                   : fmt::format("outside  embedding, final norm and head on {}\n", name_of(others));
  std::string text = fmt::format("outside  embedding on {}", name_of(tables));
  if (tables == Tier::kHost) text += ", looked up there";
  if (others != Tier::kDevice) text += fmt::format("; final norm and head on {}", name_of(others));
  return text + "\n";
}

}  // namespace

std::string print_plan(const Graph& graph, const Plan& plan, const PlanContext& context) {
  std::string text = context.title + "\n\n";
  text += tiers_text(graph, plan, context);
  const Simulation& s = plan.simulation;
  const double seconds = context.step_seconds(s);
  const double waiting = context.stall_seconds(s);
  const TierPeak& device = nth(plan.peaks, Tier::kDevice);
  const double packed =
      static_cast<double>(device.bytes) / static_cast<double>(std::max<int64_t>(1, device.lower_bound));
  text += plan.fits ? "\n" : "\nThe smallest plan found, which does not fit:\n";
  const ShownHomes homes = shown_homes(graph, plan.choices);
  text += layers_text(plan.choices.saved, homes);
  text += outside_text(homes);
  text += order_text(context);
  if (homes.state.home != Tier::kDevice || homes.gradients != Tier::kDevice) {
    text += fmt::format("update   optimizer state on {}, gradients on {}\n", name_of(homes.state.home),
                        name_of(homes.gradients));
  }
  if (!context.value_model.empty()) text += fmt::format("value    {}\n", context.value_model);
  if (context.reference) text += reference_text(*context.reference);
  text += beside_text(plan, context);
  if (context.generation) text += generation_text(*context.generation);
  if (context.process_bytes > 0)
    text +=
        fmt::format("process  {} of memory in all, program and data included\n", format_bytes(context.process_bytes));
  text += fmt::format("arena    {:.1f} % larger than the live bytes at the peak\n", 100 * std::max(0.0, packed - 1));
  const double round = context.round_seconds();
  text += fmt::format("step     {} predicted: {}compute {}, waiting {};\n         bottleneck {}; {:.0f} tokens/s\n",
                      duration_text(seconds), round > 0 ? fmt::format("completions {}, ", duration_text(round)) : "",
                      duration_text(seconds - round - waiting), duration_text(waiting), name_of(s.bottleneck),
                      static_cast<double>(graph.tokens() * context.micro_batches_of_all()) / seconds);
  text += moves_text(graph, plan, context);
  text += ranks_text(graph, plan, context);
  text += comparison(plan, context);
  text += frontier_text(plan, context);
  text = folded(text);
  return plan.fits ? text : text + shortage_text(graph, plan, context);
}

}  // namespace spillway
