// The search behind plan/search.h, in two halves.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "plan/candidates.h"
#include "plan/ideas.h"
#include "plan/search.h"

namespace spillway {

// One climb may end where no change of two blocks helps, so there are two. For one thread at a time.
class PlanSearch {
 public:
  // `candidates` are borrowed.
  PlanSearch(PlanCandidates& candidates, const Budget& budget, const Policy& policy, SearchEffort effort);

  // Looks at the plan that moves and recomputes nothing but what the user has fixed. Returns whether none can be
  // faster: it fits, and the device computes all the time.
  bool begin();
  // The first climb: from the ideas whose weights are all at home or all away. Then a look at those that spread them
  // and those that alternate. REQUIRES: after begin(), which was false.
  void climb();
  // The second climb: from the best of these, or of `starts`, if that is better than where the first one ended. Then
  // the one of those as fast as the best that takes least of the other tiers. Returns what was found, as search_plan
  // does; after a begin() that was true, that alone. REQUIRES: once, after climb() or a begin() that was true.
  [[nodiscard]] Found finish(std::span<const Choices> starts);

 private:
  using Saved = PlanIdeas::Saved;
  using Mixture = PlanIdeas::Mixture;
  using Idea = PlanIdeas::Idea;
  using Apart = PlanIdeas::Apart;
  struct Best {
    Choices choices;
    PackEffort effort = PackEffort::kQuick;
    double seconds = 0;
    int64_t bytes_away = 0;          // of all tiers but the device
    std::optional<Mixture> mixture;  // that it began as, with so many blocks of its head
    size_t first = 0;
  };

  [[nodiscard]] bool may_pack_thoroughly(const Estimate& estimate);
  // Returns true if a plan that fits is better than the best so far: faster, or, while ties are broken, to be
  // preferred.
  [[nodiscard]] bool is_better(const Best& plan) const;
  // Returns true if a plan that takes at least so many seconds is not worth packing.
  [[nodiscard]] bool is_too_slow(double least_seconds) const;
  // Returns true if a plan that is no faster than the best may be as fast, and takes clearly less of the other tiers
  // than any that is. REQUIRES: of a schedule that has not been packed.
  [[nodiscard]] bool may_be_leaner(const Estimate& estimate) const;
  void time_leaner(const Choices& choices);
  void note_timed(Best plan);
  // Looks at a plan and keeps it if it is the best so far. Returns whether it fits and, while ties are broken, is as
  // fast as the fastest.
  bool consider(const Choices& choices);
  bool consider(const Mixture& mixture, size_t first);
  // As few of the first blocks as fit are treated as the mixture's head; the search for them starts at `first`.
  void consider_mixture(const Mixture& mixture, size_t first);
  // Sets how much work candidates may cost from here on: 1 / `share` of what looking at all ideas may.
  void allow_work(int64_t share);
  // The same for what is brought back while ties are broken: little, since most of what is leaner has been looked at.
  void allow_tie_work();
  // The most promising ones first, until the work that was allowed is done.
  void look_at(std::vector<Idea> ideas);
  // The work of the candidates so far, in plans scheduled: packing and simulating one counts as two more.
  [[nodiscard]] int64_t work_done() const;
  // Considers a mixture like the best one but for something else than the number of blocks with its head, and looks for
  // that number anew.
  void consider_again(const Mixture& mixture);
  // From the best mixture: transfers that run less far ahead, so that more may stay on the device.
  void hold_less();
  // From the best mixture: more blocks with their weights on the device, say, for activations that are not, or the
  // other way.
  void trade(size_t Apart::*blocks);
  // From the best mixture, where it alternates: more or fewer blocks of either kind.
  void balance();
  // From the best plan, where the host updates: more or fewer blocks that are updated on the device.
  void share_updates();
  // Considers numbers of blocks from `best` to `most`, which `improves_with` says are better, in halving steps.
  template <typename ImprovesWith>
  void step_towards_best(size_t best, size_t most, const ImprovesWith& improves_with);
  // The nearest plan with transfers that run less far ahead, under every setting of all blocks.
  void tighten(Overlap overlap);
  // Puts back on the device what blocks have away, of as many blocks as fit: their weights, and their state. Then into
  // the host's memory what they have on the disk.
  void settle(bool is_even);
  // The best plan, and, where weights outside blocks or tables have left the device, the best of those where they have
  // not.
  void settle_all();
  // Considers plans with less and less away, down to the least that fits of 0 to `count`, by bisection.
  void keep_away_least(size_t count, const std::function<Choices(size_t away)>& choices_with);
  void settle_weights(Tier tier, bool is_even);
  void settle_state(Tier tier);
  void settle_tables();
  // The best plan becomes the one that takes least of the other tiers of those that are equally fast: of those that
  // have been looked at, and then as much of it back on the device as fits and costs no time.
  void break_ties(std::span<const Choices> starts);
  void settle_saved();
  // Hill climbing from the best plan: other settings for one block, or for two, or another tier for the weights or the
  // state of one.
  void change_blocks();
  // One step of it; false where none is left.
  bool change_one_block(const Choices& start);
  bool change_two_blocks(const Choices& start);
  bool change_one_home(const Choices& start);
  [[nodiscard]] Found packed_well();
  // Considers a plan; returns whether it is faster than the best, or nearer to fitting while none fits.
  bool improves(const Choices& choices);

  [[nodiscard]] int64_t missing(const Estimate& estimate) const;
  // REQUIRES: of a schedule that has not been packed.
  [[nodiscard]] int64_t distance_to_fitting(const Estimate& estimate) const;

  PlanCandidates& candidates_;
  const PlanBuilder& builder_;
  Budget budget_;
  PlanIdeas ideas_;
  SearchEffort effort_;
  size_t blocks_;
  std::vector<Saved> settings_;
  bool found_ = false;          // best_ fits
  bool is_fastest_ = false;     // no plan is faster than best_
  double climbed_seconds_ = 0;  // where the first climb ended; infinite where nothing fit
  Best best_;
  std::vector<Best> timed_;                                          // the plans that fit whose time was predicted
  PlanCost leanest_ = {std::numeric_limits<double>::infinity(), 0};  // that is as fast as the best of them
  std::optional<double> fastest_seconds_;                            // while ties are broken: of the fastest plan
  std::optional<Best> considered_;  // the plan that was considered last, if its time was predicted
  // The best mixtures whose weights outside blocks are on the device, without tables and with them.
  std::optional<Best> nearer_head_, nearer_tables_;
  Choices nearest_;  // to fitting, while nothing fits
  int64_t min_distance_ = std::numeric_limits<int64_t>::max();
  int64_t pack_work_ = 30'000'000;  // squares of buffers that may still be packed thoroughly
  int64_t trials_ = 0;              // how many more plans hill climbing may look at
  int64_t work_limit_ = 0;          // of work_done(), where looking at ideas ends
};

}  // namespace spillway
