#include "plan/transfers.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "base/sizes.h"
#include "graph/experts.h"
#include "plan/groups.h"
#include "plan/lead.h"

namespace spillway {
namespace {

// The most executions between two uses by operations outside blocks, on their side, that belong to one stay: the slices
// of one weight's update.
constexpr int32_t kCloseUses = 4;

struct Use {
  ValueId storage = kNone;
  int32_t execution = 0;
  ValueId read = kNone, written = kNone;
};

class TransferPlanner {
 public:
  TransferPlanner(const Graph& graph, const GraphFacts& facts, const Placement& placement, const Sequence& sequence,
                  const CostModel& costs, Overlap overlap)
      : graph_(graph), facts_(facts), placement_(placement), sequence_(sequence), costs_(costs), overlap_(overlap) {}

  Transfers run() {
    result_.moves.assign(graph_.values.size(), 0);
    find_moving();
    place_collectives();
    if (std::count(result_.moves.begin(), result_.moves.end(), 1) == 0) return std::move(result_);
    collect_uses();
    count_visits();
    const Groups by_storage(graph_.values.size(), uses_.size(), [&](size_t use) { return uses_[use].storage; });
    for (ValueId storage = 0; storage < static_cast<ValueId>(graph_.values.size()); ++storage)
      make_stays(storage, nth(by_storage, storage));
    order_stays();
    if (starts_.empty()) time_executions();
    place_transfers();
    return std::move(result_);
  }

 private:
  [[nodiscard]] const ValueFacts& facts(ValueId v) const { return facts_.value(v); }
  [[nodiscard]] BlockId block_of(int32_t i) const { return facts_.op(execution(i).op).block; }
  [[nodiscard]] ValueId storage_of(ValueId v) const { return facts(v).storage; }
  [[nodiscard]] const Execution& execution(int32_t i) const { return nth(sequence_.executions, i); }
  [[nodiscard]] Tier site(int32_t i) const { return nth(placement_.sites, execution(i).op); }
  [[nodiscard]] Tier home(ValueId v) const { return nth(placement_.homes, v); }
  // Returns the section in which it runs; if it recomputes, that is not its operation's own section.
  [[nodiscard]] SectionId section_of(int32_t i) const { return nth(sections_, i); }
  [[nodiscard]] bool is_update(int32_t i) const {
    return nth(graph_.sections, section_of(i)).repeats == Repeats::kStep;
  }
  [[nodiscard]] int64_t bytes_of(const Stay& stay) const { return facts(stay.storage).bytes; }
  [[nodiscard]] double seconds_of(const Stay& stay, Lane lane) const {
    return costs_.transfer_seconds(lane, bytes_of(stay), facts(stay.storage).parts);
  }

  // Visits the operands that have a home: recomputed instances are made where they are read.
  template <typename Visit>
  void visit_operands(int32_t i, const Visit& visit) const {
    const Execution& e = execution(i);
    for (const Instance input : sequence_.inputs(e)) {
      if (is_original(input)) visit(value_of(input), false);
    }
    for (const Instance output : sequence_.outputs(e)) {
      if (is_original(output)) visit(value_of(output), true);
    }
  }

  void find_moving() {
    for (int32_t i = 0; i < std::ssize(sequence_.executions); ++i) {
      visit_operands(i, [&, here = site(i)](ValueId v, bool) {
        if (home(v) != here) nth(result_.moves, storage_of(v)) = 1;
      });
    }
    for (ValueId v = 0; v < static_cast<ValueId>(graph_.values.size()); ++v)
      nth(result_.moves, v) = nth(result_.moves, storage_of(v));
  }

  void collect_uses() {
    std::vector<int32_t> newest(graph_.values.size(), kNone);  // by storage, of its uses
    for (int32_t i = 0; i < std::ssize(sequence_.executions); ++i) {
      visit_operands(i, [&](ValueId v, bool writes) {
        if (nth(result_.moves, v) == 0) return;
        const ValueId storage = storage_of(v);
        int32_t& use = nth(newest, storage);
        if (use == kNone || nth(uses_, use).execution != i) {
          use = static_cast<int32_t>(uses_.size());
          uses_.push_back({.storage = storage, .execution = i});
        }
        (writes ? nth(uses_, use).written : nth(uses_, use).read) = v;
      });
    }
  }

  // Numbers the visits. Executions of one block that follow each other on a side are a visit of it. A section may visit
  // a block twice: norms of all gradients, then all updates. A collective is no visit: it may run ahead, in another's.
  void count_visits() {
    struct Side {
      BlockId block = kNone;
      int32_t visit = kNone, turns = 0;
    };
    std::array<Side, kTiers> sides;
    int32_t count = 0;
    for (std::vector<int32_t>* of_execution : {&sections_, &visits_, &turns_})
      of_execution->reserve(sequence_.executions.size());
    for (SectionId section = 0; section + 1 < std::ssize(sequence_.bounds); ++section)
      resize(sections_, nth(sequence_.bounds, section + 1), section);
    for (int32_t i = 0; i < std::ssize(sequence_.executions); ++i) {
      Side& side = nth(sides, site(i));
      if (facts_.op(execution(i).op).collective) {
        visits_.push_back(count++);
        turns_.push_back(side.turns);
        continue;
      }
      const BlockId block = block_of(i);
      if (side.visit == kNone || side.block != block) side.visit = count++;
      side.block = block;
      visits_.push_back(side.visit);
      turns_.push_back(side.turns++);
    }
  }
  [[nodiscard]] bool same_visit(int32_t a, int32_t b) const { return nth(visits_, a) == nth(visits_, b); }

  [[nodiscard]] bool is_expert(ValueId storage) const { return is_of_expert(graph_, storage); }

  // Returns true if a later use finds the value still there. Saved activations leave between the passes; the weights of
  // the last block stay, for the backward pass begins with it. Experts make room for the next ones after each use.
  [[nodiscard]] bool same_stay(ValueId storage, const Stay& stay, int32_t next) const {
    if (site(next) != stay.tier) return false;
    const BlockId block = block_of(stay.last);
    const BlockId next_block = block_of(next);
    if (section_of(stay.last) == section_of(next))
      return (block != kNone && same_visit(stay.last, next) && !is_expert(storage)) ||
             nth(turns_, next) - nth(turns_, stay.last) <= kCloseUses;
    if (is_expert(storage)) return false;
    return nth(graph_.sections, section_of(next)).repeats == Repeats::kMicroBatch && facts(storage).persistent &&
           !stay.stores && block == next_block && block + 1 == std::ssize(graph_.blocks);
  }

  void make_stays(ValueId storage, std::span<const int32_t> uses) {
    const bool persistent = facts(storage).persistent;
    const size_t begin = result_.stays.size();
    ValueId version = storage;
    for (const int32_t i : uses) {
      const Use& use = nth(uses_, i);
      const bool fresh = result_.stays.size() == begin || !same_stay(storage, result_.stays.back(), use.execution);
      if (fresh) {
        result_.stays.push_back({.storage = storage,
                                 .tier = site(use.execution),
                                 .first = use.execution,
                                 .not_before = result_.stays.size() == begin ? 0 : result_.stays.back().last + 1,
                                 .loads = use.read != kNone,
                                 .loaded = version});
      }
      Stay& stay = result_.stays.back();
      stay.last = use.execution;
      if (use.written == kNone) continue;
      version = use.written;
      stay.stores = true;
      stay.stored = version;
      stay.store_after = use.execution;
    }
    // Nothing moves at home; a value without further readers need not go home, unless home is where it persists.
    for (size_t i = begin; i < result_.stays.size(); ++i) {
      Stay& stay = result_.stays[i];
      if (stay.tier == home(storage)) stay.loads = stay.stores = false;
      if (!persistent && i + 1 == result_.stays.size()) stay.stores = false;
    }
  }

  // Sorts the stays by their first uses.
  void order_stays() {
    const std::vector<Stay> stays = std::exchange(result_.stays, {});
    const Groups by_first(sequence_.executions.size(), stays.size(), [&](size_t i) { return stays[i].first; });
    result_.stays.reserve(stays.size());
    for (const int32_t i : by_first.all()) result_.stays.push_back(nth(stays, i));
  }

  void time_executions() {
    starts_ =
        execution_starts(facts_, placement_, costs_, sequence_, 0, static_cast<int32_t>(sequence_.executions.size()));
  }
  [[nodiscard]] double start(int32_t i) const { return nth(starts_, i); }
  // Returns the last execution of [low, high] that starts no later than `time`.
  [[nodiscard]] int32_t running_at(double time, int32_t low, int32_t high) const {
    const auto found = std::upper_bound(starts_.begin() + low, starts_.begin() + high + 1, time);
    return std::max(low, static_cast<int32_t>(found - starts_.begin()) - 1);
  }

  // Returns the bytes that may be under way at once: some times the mean of what one execution needs. One that needs
  // more gets more. With kBlock also all that one visit of a block needs: so the lane need not rest while a block moves
  // less than others do, or moves it in many small parts. An update's visit needs all state of its block, and its
  // operations differ little: there the mean is enough.
  // REQUIRES: in the order of `at`.
  [[nodiscard]] int64_t window_bytes(const std::vector<Stay*>& stays, int32_t Stay::*at) const {
    int64_t executions = 0, operations = 0, sum = 0, of_visit = 0, most_of_visit = 0;
    int32_t last = -1;
    for (const Stay* stay : stays) {
      const int32_t before = std::exchange(last, stay->*at);
      if (before != last) {
        ++executions;
        operations += facts_.op(execution(last).op).parts;
      }
      if (before < 0 || !same_visit(before, last) || is_update(last)) of_visit = 0;
      sum += bytes_of(*stay);
      most_of_visit = std::max(most_of_visit, of_visit += bytes_of(*stay));
    }
    if (executions == 0) return 0;
    // A window of two executions lets one run ahead where they stand for several operations each.
    const int64_t mean = sum / operations, least = 2 * (sum / executions);
    if (overlap_ == Overlap::kBlock) return std::max({8 * mean, least, most_of_visit});
    return std::max(overlap_ == Overlap::kWide ? 8 * mean : 2 * mean, least);
  }

  // Finds when each collective should have ended, if it begins when its lane is free; in a section at the latest when
  // that ends.
  void place_collectives() {
    const auto is_collective = [&](const Execution& e) { return facts_.op(e.op).collective; };
    const auto& all = sequence_.executions;
    if (std::none_of(all.begin(), all.end(), is_collective)) return;
    time_executions();
    result_.finished_by.assign(all.size(), kNone);
    for (size_t section = 0; section + 1 < sequence_.bounds.size(); ++section) {
      const int32_t begin = sequence_.bounds[section], end = sequence_.bounds[section + 1];
      std::vector<int32_t> in_section;
      for (int32_t i = begin; i < end; ++i)
        if (is_collective(execution(i))) in_section.push_back(i);
      place_collectives(in_section, end);
    }
  }

  void place_collectives(const std::vector<int32_t>& collectives, int32_t end) {
    const auto bytes = [&](int32_t i) { return facts(value_of(sequence_.inputs(execution(i))[0])).bytes; };
    int64_t sum = 0, under_way = 0;
    for (const int32_t i : collectives) sum += bytes(i);
    const int64_t window = (overlap_ == Overlap::kNarrow ? 2 : 8) * sum / std::max<int64_t>(1, std::ssize(collectives));
    double free = 0;
    auto oldest = collectives.begin();
    for (const int32_t i : collectives) {
      free = std::max(free, start(i)) + costs_.operation_seconds(execution(i).op, Lane::kPeer);
      const auto after = std::upper_bound(starts_.begin() + i + 1, starts_.begin() + end, free);
      nth(result_.finished_by, i) =
          overlap_ == Overlap::kSynchronous ? i + 1 : static_cast<int32_t>(after - starts_.begin());
      under_way += bytes(i);
      for (; under_way > window && *oldest != i; ++oldest) {
        under_way -= bytes(*oldest);
        nth(result_.finished_by, *oldest) = std::min(nth(result_.finished_by, *oldest), i + 1);
      }
    }
  }

  [[nodiscard]] bool is_synchronous(const Stay& stay) const {
    return overlap_ == Overlap::kSynchronous || nth(placement_.synchronous, stay.storage) != 0;
  }

  // Places transfers by section and lane: transfers of one group share a lane's time.
  void place_transfers() {
    std::vector<Stay>& stays = result_.stays;
    const auto group = [&](int32_t at, Tier from, Tier to) {
      return section_of(at) * kLanes + static_cast<int32_t>(lane_between(from, to));
    };
    const size_t sections = graph_.sections.size();
    const Groups loads(sections * kLanes, stays.size(), [&](size_t i) {
      return stays[i].loads ? group(stays[i].first, home(stays[i].storage), stays[i].tier) : kNone;
    });
    const Groups stores(sections * kLanes, stays.size(), [&](size_t i) {
      return stays[i].stores ? group(stays[i].store_after, stays[i].tier, home(stays[i].storage)) : kNone;
    });
    for (size_t section = 0; section < sections; ++section) {
      for (const Lane lane : kEachLane) {
        const size_t in_group = section * kLanes + static_cast<size_t>(lane);
        place_loads(section, lane, stays_of(loads[in_group]));
        place_stores(section, lane, stays_of(stores[in_group]));
      }
    }
  }
  std::vector<Stay*> stays_of(std::span<const int32_t> indices) {
    std::vector<Stay*> result;
    result.reserve(indices.size());
    for (const int32_t i : indices) result.push_back(&nth(result_.stays, i));
    return result;
  }

  void place_loads(size_t section, Lane lane, const std::vector<Stay*>& loads) {
    const int32_t begin = sequence_.bounds[section], end = sequence_.bounds[section + 1];
    double next = start(end);
    for (auto stay = loads.rbegin(); stay != loads.rend(); ++stay) {
      const double seconds = seconds_of(**stay, lane);
      next = std::min(next, start((*stay)->first)) - seconds;
      const double lead = lead_seconds(seconds / facts((*stay)->storage).parts) + costs_.latency_seconds(lane);
      (*stay)->load_before = is_synchronous(**stay) ? (*stay)->first : running_at(next - lead, begin, (*stay)->first);
    }
    limit_loads(loads);
  }

  // Delays a load until enough of those before it have reached their use, and until its value has left its last stay.
  void limit_loads(const std::vector<Stay*>& loads) {
    const int64_t window = window_bytes(loads, &Stay::first);
    size_t oldest = 0;
    int64_t under_way = 0;
    for (size_t i = 0; i < loads.size(); ++i) {
      under_way += bytes_of(*loads[i]);
      int32_t earliest = loads[i]->load_before;
      for (; under_way > window && loads[oldest]->first < loads[i]->first; ++oldest) {
        under_way -= bytes_of(*loads[oldest]);
        earliest = std::max(earliest, loads[oldest]->first + 1);
      }
      loads[i]->load_before = std::min(std::max(earliest, loads[i]->not_before), loads[i]->first);
    }
  }

  void place_stores(size_t section, Lane lane, std::vector<Stay*> stores) {
    const int32_t begin = sequence_.bounds[section], end = sequence_.bounds[section + 1];
    std::stable_sort(stores.begin(), stores.end(),
                     [](const Stay* a, const Stay* b) { return a->store_after < b->store_after; });
    const int64_t window = window_bytes(stores, &Stay::store_after);
    double free = start(begin);
    size_t oldest = 0;
    int64_t under_way = 0;
    for (size_t i = 0; i < stores.size(); ++i) {
      Stay* stay = stores[i];
      const double made = start(stay->store_after + 1);
      free = std::max(free, made) + seconds_of(*stay, lane);
      const auto after = std::upper_bound(starts_.begin() + stay->store_after + 1, starts_.begin() + end,
                                          free + costs_.latency_seconds(lane));
      stay->stored_by = is_synchronous(*stay) ? stay->store_after + 1 : static_cast<int32_t>(after - starts_.begin());
      under_way += bytes_of(*stay);
      for (; under_way > window && oldest < i; ++oldest) {
        under_way -= bytes_of(*stores[oldest]);
        stores[oldest]->stored_by = std::min(stores[oldest]->stored_by, stay->store_after + 1);
      }
    }
  }

  const Graph& graph_;
  const GraphFacts& facts_;
  const Placement& placement_;
  const Sequence& sequence_;
  const CostModel& costs_;
  Overlap overlap_;
  std::vector<Use> uses_;            // of the values that move, in order
  std::vector<SectionId> sections_;  // by execution
  std::vector<int32_t> visits_;      // by execution: the index of its visit
  std::vector<int32_t> turns_;       // by execution: how many of its side came before it
  std::vector<double> starts_;       // by execution, if nothing waited; one more for the end
  Transfers result_;
};

}  // namespace

Lane lane_between(Tier from, Tier to) {
  if (from == Tier::kDisk || from == Tier::kFiles) return Lane::kDiskRead;
  if (to == Tier::kDisk) return Lane::kDiskWrite;
  SPILLWAY_CHECK(from != to && to != Tier::kFiles, "no lane from {} to {}", name_of(from), name_of(to));
  return to == Tier::kDevice ? Lane::kHostToDevice : Lane::kDeviceToHost;
}

Transfers plan_transfers(const Graph& graph, const GraphFacts& facts, const Placement& placement,
                         const Sequence& sequence, const CostModel& costs, Overlap overlap) {
  return TransferPlanner(graph, facts, placement, sequence, costs, overlap).run();
}

}  // namespace spillway
