#include "plan/offsets.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <optional>

#include "base/index.h"
#include "base/math.h"
#include "plan/groups.h"

namespace spillway {
namespace {

constexpr int kImprovementRounds = 16;
// The limit of work: first fit takes time with the square of the intervals, and so many squares take a second or two.
constexpr int64_t kFirstFitWork = 100'000'000;
// The inverse share by which a packing may exceed the bound and still not be worth improving.
constexpr int64_t kCloseShare = 200;

// Like align_up and its counterpart, but without divisions, since they are called for each interval.
constexpr int64_t up_to(int64_t value, int64_t power_of_two) { return (value + power_of_two - 1) & -power_of_two; }
constexpr int64_t down_to(int64_t value, int64_t power_of_two) { return value & -power_of_two; }

// The padding of the highest interval is not part of the arena, unless transfers write it.
int64_t end_of(const Interval& item, int64_t offset) {
  return offset + (item.alignment > kArenaAlignment ? up_to(item.bytes, item.alignment) : item.bytes);
}

int64_t top_of(std::span<const Interval> intervals, std::span<const int64_t> offsets) {
  int64_t top = 0;
  for (size_t i = 0; i < intervals.size(); ++i) {
    if (intervals[i].bytes > 0) top = std::max(top, end_of(intervals[i], offsets[i]));
  }
  return top;
}

// First fit in a given order. Placed intervals are kept in the order of offsets: a new one walks up to its gap.
class FirstFit {
 public:
  explicit FirstFit(std::span<const Interval> intervals) : intervals_(intervals) {
    lifetimes_.reserve(intervals.size());
    ranges_.reserve(intervals.size());
  }

  Packing run(std::span<const int32_t> order) {
    lifetimes_.clear();
    ranges_.clear();
    Packing packing{.offsets = std::vector<int64_t>(intervals_.size(), 0)};
    for (const int32_t id : order) {
      const Interval& item = nth(intervals_, id);
      if (item.bytes == 0) continue;
      const int64_t size = up_to(item.bytes, item.alignment);
      const int64_t offset = lowest_gap(item, size);
      nth(packing.offsets, id) = offset;
      packing.bytes = std::max(packing.bytes, end_of(item, offset));
      const auto above =
          std::partition_point(ranges_.begin(), ranges_.end(), [&](const Range& at) { return at.begin <= offset; });
      lifetimes_.insert(lifetimes_.begin() + (above - ranges_.begin()), {item.begin, item.end});
      ranges_.insert(above, {offset, offset + size});
    }
    return packing;
  }

 private:
  struct Lifetime {
    int32_t begin, end;
  };
  struct Range {
    int64_t begin, end;  // in bytes
  };

  // Most placed intervals do not meet the new one in time, in no pattern that a processor could predict. So those of a
  // chunk that meet it are collected without a branch first.
  [[nodiscard]] int64_t lowest_gap(const Interval& item, int64_t size) const {
    constexpr size_t kChunk = 64;
    std::array<uint32_t, kChunk> met;
    int64_t candidate = 0;
    for (size_t first = 0; first < ranges_.size(); first += kChunk) {
      if (ranges_[first].begin >= candidate + size) break;
      const size_t end = std::min(first + kChunk, ranges_.size());
      size_t count = 0;
      for (size_t i = first; i < end; ++i) {
        met[count] = static_cast<uint32_t>(i);
        count +=
            static_cast<size_t>(lifetimes_[i].begin < item.end) & static_cast<size_t>(lifetimes_[i].end > item.begin);
      }
      for (size_t i = 0; i < count; ++i) {
        const Range& range = ranges_[met[i]];
        if (range.begin >= candidate + size) return candidate;
        candidate = std::max(candidate, up_to(range.end, item.alignment));
      }
    }
    return candidate;
  }

  std::span<const Interval> intervals_;
  std::vector<Lifetime> lifetimes_;  // of placed intervals
  std::vector<Range> ranges_;        // of the same, in the order of their begins
};

// Places intervals in the order of births, within a given height: long-lived ones at the lowest free place, short-lived
// ones at the highest. Values saved by the forward pass then stand like a stack at the bottom, and short-lived values
// leave no holes in it.
class TwoEnded {
 public:
  explicit TwoEnded(std::span<const Interval> intervals) : all_(intervals.size()) {
    for (size_t i = 0; i < intervals.size(); ++i) {
      const Interval& interval = intervals[i];
      if (interval.bytes == 0) continue;
      items_.push_back({up_to(interval.bytes, interval.alignment), interval.alignment, interval.begin, interval.end,
                        static_cast<int32_t>(i)});
    }
    std::stable_sort(items_.begin(), items_.end(), [&](const Item& a, const Item& b) {
      return a.begin != b.begin ? a.begin < b.begin : intervals[a.interval()].bytes > intervals[b.interval()].bytes;
    });
    int32_t end = 0;
    for (const Item& item : items_) end = std::max(end, item.end);
    const Groups by_end(static_cast<size_t>(end) + 1, items_.size(), [&](size_t i) { return items_[i].end; });
    for (const int32_t id : by_end.all()) deaths_.push_back({nth(items_, id).size, nth(items_, id).end, id});
    places_.resize(items_.size());
  }

  // Returns offsets below `height`, or none if something does not fit. Long-lived means more than `short_steps` steps.
  std::optional<std::vector<int64_t>> run(int64_t height, int32_t short_steps) {
    gaps_ = {{0, height}};
    auto dead = deaths_.begin();
    for (size_t i = 0; i < items_.size(); ++i) {
      placed_count_ = static_cast<int64_t>(i);
      const Item& item = items_[i];
      for (; dead->time <= item.begin; ++dead) release(nth(places_, dead->item), dead->size);
      const std::optional<int64_t> offset = item.steps() > short_steps ? take_lowest(item) : take_highest(item);
      if (!offset) return std::nullopt;
      places_[i] = *offset;
    }
    std::vector<int64_t> offsets(all_, 0);
    for (size_t i = 0; i < items_.size(); ++i) offsets[items_[i].interval()] = places_[i];
    return offsets;
  }

  // Returns how many items the last run placed before one did not fit.
  [[nodiscard]] int64_t placed_count() const { return placed_count_; }

  [[nodiscard]] int64_t count_long(int32_t short_steps) const {
    return std::count_if(items_.begin(), items_.end(), [&](const Item& item) { return item.steps() > short_steps; });
  }

 private:
  // The properties of an interval that a run needs; they are shared by many runs.
  struct Item {
    int64_t size, alignment;
    int32_t begin, end, id;

    [[nodiscard]] int32_t steps() const { return end - begin; }
    [[nodiscard]] size_t interval() const { return static_cast<size_t>(id); }
  };
  struct Death {
    int64_t size;
    int32_t time, item;
  };
  struct Gap {
    int64_t begin, end;
  };
  using GapIterator = std::vector<Gap>::iterator;

  std::optional<int64_t> take_lowest(const Item& item) {
    for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap) {
      const int64_t offset = up_to(gap->begin, item.alignment);
      if (offset + item.size <= gap->end) return take(gap, offset, item.size);
    }
    return std::nullopt;
  }

  std::optional<int64_t> take_highest(const Item& item) {
    for (auto gap = gaps_.end(); gap != gaps_.begin();) {
      --gap;
      const int64_t offset = down_to(gap->end - item.size, item.alignment);
      if (offset >= gap->begin) return take(gap, offset, item.size);
    }
    return std::nullopt;
  }

  int64_t take(GapIterator gap, int64_t offset, int64_t size) {
    const int64_t end = gap->end, top = offset + size;
    if (offset == gap->begin && top == end) {
      gaps_.erase(gap);
    } else if (offset == gap->begin) {
      gap->begin = top;
    } else {
      gap->end = offset;
      if (top < end) gaps_.insert(gap + 1, {top, end});
    }
    return offset;
  }

  void release(int64_t offset, int64_t size) {
    const int64_t end = offset + size;
    const auto next =
        std::partition_point(gaps_.begin(), gaps_.end(), [&](const Gap& gap) { return gap.begin < offset; });
    const bool joins_next = next != gaps_.end() && next->begin == end;
    const bool joins_last = next != gaps_.begin() && (next - 1)->end == offset;
    if (joins_last && joins_next) {
      (next - 1)->end = next->end;
      gaps_.erase(next);
    } else if (joins_last) {
      (next - 1)->end = end;
    } else if (joins_next) {
      next->begin = offset;
    } else {
      gaps_.insert(next, {offset, end});
    }
  }

  size_t all_;                   // intervals, those without bytes as well
  std::vector<Item> items_;      // in the order of their births
  std::vector<Death> deaths_;    // of items_, by time
  std::vector<int64_t> places_;  // by item: its offset in this run
  std::vector<Gap> gaps_;        // in order of offset
  int64_t placed_count_ = 0;
};

// Returns the lowest packing among a few heights a little above the bound that works.
std::optional<Packing> pack_two_ended(std::span<const Interval> intervals, int64_t bound) {
  constexpr int64_t kShares[] = {0, 2048, 256, 64, 32, 20, 10, 4, 1};  // of the bound, added to it
  constexpr int32_t kShortSteps[] = {2, 8, 24, 512, 1, 48, 128};
  // Items placed by runs that failed. Beyond it, only the bound whose last run placed most goes on to greater heights.
  constexpr int64_t kWork = 500'000;
  TwoEnded packer(intervals);
  // Bounds with the same number of intervals above them give the same result.
  std::vector<int32_t> bounds;
  std::vector<int64_t> counts;
  for (const int32_t short_steps : kShortSteps) {
    const int64_t count = packer.count_long(short_steps);
    if (std::find(counts.begin(), counts.end(), count) != counts.end()) continue;
    counts.push_back(count);
    bounds.push_back(short_steps);
  }
  int64_t work = 0;
  for (const int64_t share : kShares) {
    const int64_t height = share == 0 ? bound : bound + align_up(bound / share, kArenaAlignment);
    std::vector<int64_t> placed;
    for (const int32_t short_steps : bounds) {
      if (auto offsets = packer.run(height, short_steps)) {
        const int64_t top = top_of(intervals, *offsets);
        return Packing{std::move(*offsets), top, bound};
      }
      placed.push_back(packer.placed_count());
      work += placed.back();
    }
    if (work > kWork) bounds = {nth(bounds, std::max_element(placed.begin(), placed.end()) - placed.begin())};
  }
  return std::nullopt;
}

int64_t largest_live_sum(std::span<const Interval> intervals) {
  int32_t end = 0;
  for (const Interval& i : intervals) end = std::max(end, i.end);
  auto change = make_vector<int64_t>(int64_t{end} + 1);
  for (const Interval& i : intervals) {
    nth(change, i.begin) += up_to(i.bytes, i.alignment);
    nth(change, i.end) -= up_to(i.bytes, i.alignment);
  }
  int64_t sum = 0, largest = 0;
  for (const int64_t c : change) largest = std::max(largest, sum += c);
  return largest;
}

using Order = std::vector<int32_t>;

std::vector<Order> starting_orders(std::span<const Interval> intervals) {
  using Key = std::function<double(const Interval&)>;  // larger goes first; ties keep the order of birth
  const Key keys[] = {
      [](const Interval& i) { return static_cast<double>(i.end - i.begin); },
      [](const Interval& i) { return static_cast<double>(i.bytes); },
      [](const Interval& i) { return static_cast<double>(i.bytes) * (i.end - i.begin); },
      [](const Interval& i) { return -static_cast<double>(i.begin); },
  };
  std::vector<Order> orders;
  for (const Key& key : keys) {
    Order order(intervals.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return key(nth(intervals, a)) > key(nth(intervals, b)); });
    orders.push_back(std::move(order));
  }
  return orders;
}

// Moves the intervals that reach the top of the arena to the front, keeping all else in order.
Order raise_the_highest(const Order& order, std::span<const Interval> intervals, const Packing& packing) {
  Order result = order;
  std::stable_partition(result.begin(), result.end(), [&](int32_t id) {
    return nth(packing.offsets, id) + nth(intervals, id).bytes == packing.bytes;
  });
  return result;
}

}  // namespace

Packing pack(std::span<const Interval> intervals, PackEffort effort) {
  const int64_t bound = largest_live_sum(intervals);
  const std::optional<Packing> quick = pack_two_ended(intervals, bound);
  if (quick && (effort == PackEffort::kQuick || quick->bytes - bound <= bound / kCloseShare)) return *quick;
  FirstFit first_fit(intervals);
  Packing best;
  Order best_order;
  int64_t work = kFirstFitWork;
  const auto may_go_on = [&] { return (work -= std::ssize(intervals) * std::ssize(intervals)) > 0; };
  if (quick && !may_go_on()) return *quick;
  for (Order& order : starting_orders(intervals)) {
    if (!best_order.empty() && !may_go_on()) break;
    Packing packing = first_fit.run(order);
    if (best_order.empty() || packing.bytes < best.bytes) best = std::move(packing), best_order = std::move(order);
    if (best.bytes <= bound) break;
  }
  Order order = best_order;
  Packing current = best;
  for (int round = 0; round < kImprovementRounds && best.bytes > bound && may_go_on(); ++round) {
    Order raised = raise_the_highest(order, intervals, current);
    if (raised == order) break;  // the packing would be the same
    order = std::move(raised);
    current = first_fit.run(order);
    if (current.bytes < best.bytes) best = current;
  }
  best.lower_bound = bound;
  if (quick && quick->bytes <= best.bytes) return *quick;
  return best;
}

}  // namespace spillway
