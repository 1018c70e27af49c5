#include "plan/offsets.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/math.h"

namespace spillway {
namespace {

constexpr int kImprovementRounds = 16;

// First fit in a given order. What is placed is indexed by time, so that an interval looks only at those it meets.
class FirstFit {
 public:
  explicit FirstFit(std::span<const Interval> intervals) : intervals_(intervals) {
    int32_t end = 0;
    for (const Interval& i : intervals) end = std::max(end, i.end);
    born_at_.resize(static_cast<size_t>(end));
    alive_at_.resize(static_cast<size_t>(end));
  }

  Packing run(std::span<const int32_t> order) {
    for (auto& list : born_at_) list.clear();
    for (auto& list : alive_at_) list.clear();
    Packing packing{.offsets = std::vector<int64_t>(intervals_.size(), 0)};
    for (const int32_t id : order) {
      const Interval& item = intervals_[static_cast<size_t>(id)];
      if (item.bytes == 0) continue;
      const int64_t size = align_up(item.bytes, item.alignment);
      const int64_t offset = lowest_gap(item, size);
      packing.offsets[static_cast<size_t>(id)] = offset;
      packing.bytes = std::max(packing.bytes, offset + (item.alignment > kArenaAlignment ? size : item.bytes));
      born_at_[static_cast<size_t>(item.begin)].push_back({offset, offset + size});
      for (int32_t t = item.begin; t < item.end; ++t)
        alive_at_[static_cast<size_t>(t)].push_back({offset, offset + size});
    }
    return packing;
  }

 private:
  struct Range {
    int64_t begin, end;
  };

  // Whoever meets [begin, end) in time is alive at begin or is born later within it.
  int64_t lowest_gap(const Interval& item, int64_t size) {
    met_ = alive_at_[static_cast<size_t>(item.begin)];
    for (int32_t t = item.begin + 1; t < item.end; ++t) {
      const auto& born = born_at_[static_cast<size_t>(t)];
      met_.insert(met_.end(), born.begin(), born.end());
    }
    std::sort(met_.begin(), met_.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
    int64_t candidate = 0;
    for (const Range& other : met_) {
      if (other.begin >= candidate + size) break;
      candidate = std::max(candidate, align_up(other.end, item.alignment));
    }
    return candidate;
  }

  std::span<const Interval> intervals_;
  std::vector<std::vector<Range>> born_at_, alive_at_;  // by step
  std::vector<Range> met_;
};

int64_t largest_live_sum(std::span<const Interval> intervals) {
  int32_t end = 0;
  for (const Interval& i : intervals) end = std::max(end, i.end);
  std::vector<int64_t> change(static_cast<size_t>(end) + 1, 0);
  for (const Interval& i : intervals) {
    change[static_cast<size_t>(i.begin)] += align_up(i.bytes, i.alignment);
    change[static_cast<size_t>(i.end)] -= align_up(i.bytes, i.alignment);
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
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return key(intervals[static_cast<size_t>(a)]) > key(intervals[static_cast<size_t>(b)]);
    });
    orders.push_back(std::move(order));
  }
  return orders;
}

// Moves the intervals that reach the top of the arena to the front, keeping all else in order.
Order raise_the_highest(const Order& order, std::span<const Interval> intervals, const Packing& packing) {
  Order result = order;
  std::stable_partition(result.begin(), result.end(), [&](int32_t id) {
    const auto i = static_cast<size_t>(id);
    return packing.offsets[i] + intervals[i].bytes == packing.bytes;
  });
  return result;
}

}  // namespace

Packing pack(std::span<const Interval> intervals) {
  const int64_t bound = largest_live_sum(intervals);
  FirstFit first_fit(intervals);
  Packing best;
  Order best_order;
  for (Order& order : starting_orders(intervals)) {
    Packing packing = first_fit.run(order);
    if (best_order.empty() || packing.bytes < best.bytes) best = std::move(packing), best_order = std::move(order);
    if (best.bytes <= bound) break;
  }
  Order order = best_order;
  Packing current = best;
  for (int round = 0; round < kImprovementRounds && best.bytes > bound; ++round) {
    order = raise_the_highest(order, intervals, current);
    current = first_fit.run(order);
    if (current.bytes < best.bytes) best = current;
  }
  best.lower_bound = bound;
  return best;
}

}  // namespace spillway
