#include "plan/gathers_ahead.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/index.h"
#include "plan/lead.h"

namespace spillway {
namespace {

class SectionOrder {
 public:
  SectionOrder(const GraphFacts& facts, const Placement& placement, const CostModel& costs, Overlap overlap,
               Sequence& sequence, int32_t begin, int32_t end)
      : facts_(facts),
        placement_(placement),
        costs_(costs),
        overlap_(overlap),
        sequence_(sequence),
        begin_(begin),
        end_(end) {}

  void run() {
    find_gathers();
    if (gathers_.empty()) return;
    starts_ = execution_starts(facts_, placement_, costs_, sequence_, begin_, end_);
    place();
    limit();
    reorder();
  }

 private:
  struct Gather {
    int32_t at = 0;        // where it is
    int32_t reader = 0;    // the first execution of the section that reads it; itself if there is none
    int32_t earliest = 0;  // what it reads is there, and what has to come before it has
    int32_t before = 0;    // the execution that it moves to
    int64_t bytes = 0;
  };

  [[nodiscard]] const Execution& execution(int32_t i) const { return nth(sequence_.executions, i); }
  [[nodiscard]] bool is_collective(int32_t i) const { return facts_.op(execution(i).op).collective; }
  [[nodiscard]] ValueId storage_of(Instance instance) const { return facts_.value(value_of(instance)).storage; }
  [[nodiscard]] double start(int32_t i) const { return nth(starts_, i - begin_); }

  [[nodiscard]] bool is_gather(int32_t i) const {
    const auto is_persistent = [&](Instance one) { return facts_.value(value_of(one)).persistent; };
    const std::span<const Instance> inputs = sequence_.inputs(execution(i)), outputs = sequence_.outputs(execution(i));
    return is_collective(i) && std::all_of(inputs.begin(), inputs.end(), is_persistent) &&
           std::none_of(outputs.begin(), outputs.end(), is_persistent);
  }

  void find_gathers() {
    std::vector<int32_t> written(facts_.values.size(), begin_ - 1);   // by storage, where it was last
    std::vector<int32_t> gather_of(2 * facts_.values.size(), kNone);  // by instance, until it is read
    int32_t last_other = begin_ - 1;                                  // collective that no gather may pass
    for (int32_t i = begin_; i < end_; ++i) {
      for (const Instance input : sequence_.inputs(execution(i))) {
        if (input == kNone || nth(gather_of, input) == kNone) continue;
        nth(gathers_, std::exchange(nth(gather_of, input), kNone)).reader = i;
      }
      if (is_gather(i)) {
        Gather& gather = gathers_.emplace_back(Gather{.at = i, .reader = i, .earliest = begin_});
        if (!execution(i).recompute) gather.earliest = last_other + 1;
        for (const Instance input : sequence_.inputs(execution(i)))
          gather.earliest = std::max(gather.earliest, nth(written, storage_of(input)) + 1);
        for (const Instance output : sequence_.outputs(execution(i))) {
          gather.bytes += facts_.value(value_of(output)).bytes;
          nth(gather_of, output) = static_cast<int32_t>(gathers_.size() - 1);
        }
      } else if (is_collective(i)) {
        last_other = i;
      }
      for (const Instance output : sequence_.outputs(execution(i))) nth(written, storage_of(output)) = i;
    }
  }

  // The lane also has the other collectives to run on the way.
  void place() {
    double next = starts_.back();
    auto gather = gathers_.rbegin();
    for (int32_t i = end_ - 1; i >= begin_; --i) {
      if (!is_collective(i)) continue;
      const double seconds = costs_.operation_seconds(execution(i).op, Lane::kPeer);
      const bool is_next = gather != gathers_.rend() && gather->at == i;
      next = (is_next ? std::min(next, start(i)) : next) - seconds;
      if (!is_next) continue;
      const auto found =
          std::upper_bound(starts_.begin(), starts_.begin() + (i - begin_) + 1, next - lead_seconds(seconds));
      gather->before = begin_ + std::max(0, static_cast<int32_t>(found - starts_.begin()) - 1);
      ++gather;
    }
  }

  // Delays gathers until enough of those before them have reached their readers.
  void limit() {
    const int64_t sum = std::accumulate(gathers_.begin(), gathers_.end(), int64_t{0},
                                        [](int64_t bytes, const Gather& one) { return bytes + one.bytes; });
    const int64_t window = (overlap_ == Overlap::kNarrow ? 2 : 8) * sum / std::ssize(gathers_);
    int64_t under_way = 0;
    auto oldest = gathers_.begin();
    int32_t last = begin_;  // they keep their order
    for (Gather& gather : gathers_) {
      under_way += gather.bytes;
      int32_t earliest = std::max(gather.earliest, last);
      for (; under_way > window && oldest->reader < gather.at; ++oldest) {
        under_way -= oldest->bytes;
        earliest = std::max(earliest, oldest->reader + 1);
      }
      last = gather.before = std::clamp(earliest, gather.before, gather.at);
    }
  }

  void reorder() {
    std::vector<Execution> order;
    order.reserve(static_cast<size_t>(end_ - begin_));
    auto moved = gathers_.begin(), stayed = gathers_.begin();
    for (int32_t i = begin_; i < end_; ++i) {
      for (; moved != gathers_.end() && moved->before == i; ++moved) order.push_back(execution(moved->at));
      if (stayed != gathers_.end() && stayed->at == i) {
        ++stayed;
      } else {
        order.push_back(execution(i));
      }
    }
    std::copy(order.begin(), order.end(), sequence_.executions.begin() + begin_);
  }

  const GraphFacts& facts_;
  const Placement& placement_;
  const CostModel& costs_;
  Overlap overlap_;
  Sequence& sequence_;
  int32_t begin_, end_;
  std::vector<Gather> gathers_;  // in their order
  std::vector<double> starts_;   // by execution, if nothing waited; one more for the end
};

}  // namespace

void run_gathers_ahead(const GraphFacts& facts, const Placement& placement, const CostModel& costs, Overlap overlap,
                       Sequence& sequence) {
  if (overlap == Overlap::kSynchronous) return;
  const auto is_collective = [&](const Execution& one) { return facts.op(one.op).collective; };
  if (std::none_of(sequence.executions.begin(), sequence.executions.end(), is_collective)) return;
  for (size_t section = 0; section + 1 < sequence.bounds.size(); ++section)
    SectionOrder(facts, placement, costs, overlap, sequence, sequence.bounds[section], sequence.bounds[section + 1])
        .run();
}

}  // namespace spillway
