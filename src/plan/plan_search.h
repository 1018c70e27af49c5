// The search behind plan/search.h, in two halves.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "plan/candidates.h"
#include "plan/proposals.h"
#include "plan/search.h"

namespace spillway {

// The factor by which a plan with the weights outside blocks on the device may be slower than the best and still become
// faster when both are refined.
constexpr double kNearSlack = 1.05;

// The search for one budget. A climb may end where no change of two blocks helps, so there are two. Not thread-safe.
class PlanSearch {
 public:
  // Borrows `candidates`.
  PlanSearch(PlanCandidates& candidates, const Budget& budget, const Policy& policy, SearchEffort effort);

  // Looks at the plan that moves and recomputes nothing except what the user has fixed. Returns true if none can be
  // faster: it fits, and the device computes all the time.
  bool begin();
  // The first climb: starts from the candidates whose weights are all at home or all away, then looks at those that
  // spread them and those that alternate. A quick one starts from all that seem to fit, those that spread included.
  // REQUIRES: after begin(), which returned false.
  void climb();
  // The second climb: starts from the best of these, or of `starts`, if that is better than the end of the first one.
  // Then breaks ties. Returns what search_plan returns; after a begin() that returned true, that plan alone. REQUIRES:
  // called once, after climb() or a begin() that returned true.
  [[nodiscard]] Found finish(std::span<const Choices> starts);

 private:
  using Mixture = PlanProposals::Mixture;
  using Proposal = PlanProposals::Proposal;
  struct Best {
    Choices choices;
    PackEffort effort = PackEffort::kQuick;
    double seconds = 0;
    int64_t bytes_away = 0;          // of all tiers but the device
    std::optional<Mixture> mixture;  // the mixture that it began as, with so many blocks of its head
    size_t first = 0;
  };

  [[nodiscard]] bool may_pack_thoroughly(const Estimate& estimate);
  // Returns true if a plan that fits is better than the best so far: faster, or, while ties are broken, preferred.
  [[nodiscard]] bool is_better(const Best& plan) const;
  // Returns true if a plan that takes at least so many seconds is not worth packing.
  [[nodiscard]] bool is_too_slow(double least_seconds) const;
  // Raises the seconds of an estimate that fits to those of the schedule with no memory used twice, if a plan could be
  // too slow at all: those count the waiting, packing takes longer than simulating, and few plans are the best.
  void count_waiting(const Choices& choices, Estimate& estimate);
  // Returns true if a plan that is no faster than the best may be as fast, and takes clearly less of the other tiers
  // than any that is. REQUIRES: a schedule that has not been packed.
  [[nodiscard]] bool may_be_leaner(const Estimate& estimate) const;
  // Packs and times such a plan, and notes it if it fits.
  void time_leaner(const Choices& choices);
  void note_timed(Best plan);
  // Looks at a plan and keeps it if it is the best so far. Returns true if it fits and, while ties are broken, is as
  // fast as the fastest. A plan is timed also if it is slower than the best by no more than the factor `slack`.
  bool consider(const Choices& choices, double slack = 1);
  bool consider(const Mixture& mixture, size_t first);
  // Treats as few of the first blocks as fit as the mixture's head; the search for their number starts at `first`.
  void consider_mixture(const Mixture& mixture, size_t first);
  // Sets how much work candidates may cost from here on: 1 / `share` of the work allowed for looking at all proposals.
  void allow_work(int64_t share);
  // Does the same for what comes back to the device while ties are broken. It is little, since most of the leaner plans
  // have been looked at by then.
  void allow_tie_work();
  // Looks at the most promising ones first, until the allowed work is done.
  void look_at(std::vector<Proposal> proposals);
  // Looks at plans with all homes in one tier and transfers that run less far ahead, until one fits.
  void look_far();
  // Returns the work of the candidates so far, in plans scheduled: packing and simulating one counts as two more.
  [[nodiscard]] int64_t work_done() const;
  // Considers a mixture that differs from the best one in something other than the number of blocks with its head, and
  // searches for that number anew.
  void consider_again(const Mixture& mixture);
  // Lets transfers of the best mixture run less far ahead, so that more may stay on the device.
  void hold_less();
  // Moves, in the best mixture, these groups of more blocks to a tier, or of fewer: so weights are kept on the device
  // in exchange for activations, or the other way round.
  void trade(RoleSet roles, Tier tier);
  // Tries more or fewer blocks of either kind in the best mixture, if it alternates.
  void balance();
  // Tries more or fewer blocks that are updated on the device in the best plan, if the host updates.
  void share_updates();
  // Considers numbers of blocks from `best` to `most`, in halving steps, moving on where `improves_with` returns true.
  template <typename ImprovesWith>
  void step_towards_best(size_t best, size_t most, const ImprovesWith& improves_with);
  // Tries the nearest plan with transfers that run less far ahead, under every setting of all blocks.
  void tighten(Overlap overlap);
  // Moves weights and state of as many blocks as fit back to the device; then moves what blocks have on the disk to
  // host memory.
  void refine(bool is_even);
  // Refines the best plan, and, if weights outside blocks or tables have left the device, the best plan in which they
  // have not.
  void refine_all();
  // Considers plans with less and less away, down to the least that fits of 0 to `count`, by bisection.
  void keep_away_least(size_t count, const std::function<Choices(size_t away)>& choices_with);
  // Leaves these groups farther away than `tier` in as few blocks as the budget allows.
  void refine_groups(RoleSet roles, Tier tier, Subset::Where where);
  void refine_tables();
  // Replaces the best plan by the one of those as fast that takes least of the other tiers: of the plans that have been
  // looked at, and then with as much of it back on the device as fits and costs no time.
  void break_ties(std::span<const Choices> starts);
  void refine_saved();
  // Climbs from the best plan: tries other settings for one block, or for two, or another tier for the weights or the
  // state of one.
  void change_blocks();
  // Each takes one step of it; returns false if none is left.
  bool change_one_block(const Choices& start);
  bool change_two_blocks(const Choices& start);
  bool change_one_home(const Choices& start);
  [[nodiscard]] Found packed_well();
  // Considers a plan; returns true if it is faster than the best, or nearer to fitting while none fits.
  bool improves(const Choices& choices);

  [[nodiscard]] int64_t missing(const Estimate& estimate) const;
  // REQUIRES: the estimate of a schedule that has not been packed.
  [[nodiscard]] int64_t distance_to_fitting(const Estimate& estimate) const;

  PlanCandidates& candidates_;
  const PlanBuilder& builder_;
  Budget budget_;
  PlanProposals proposals_;
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
  int64_t work_limit_ = 0;          // of work_done(), where looking at proposals ends
  int64_t patient_limit_ = 0;       // the same while none fits: a quick search that finds no plan is worth nothing
};

}  // namespace spillway
