// The candidates of a search for plans, ordered by forecasts.
//
// A *setting* is the activation policy of a block; *homes* are the tiers of weights, gradients and optimizer state. An
// proposal is a candidate: one of each for all blocks, or a mixture of two settings; and it may move groups of some
// blocks.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "plan/candidates.h"
#include "plan/forecast.h"
#include "plan/roles.h"

namespace spillway {

class PlanProposals {
 public:
  // The groups with these roles of some blocks live in another tier than `homes` says. The blocks are those that no
  // earlier move of the same roles has taken: so many, spread evenly, or all without the setting of the first blocks.
  struct Move {
    RoleSet roles;
    Tier tier = Tier::kDevice;
    Subset::Where where = Subset::Where::kSpread;
    size_t count = 0;
  };
  // A candidate in which some blocks have one setting and the rest another.
  struct Mixture {
    Saved head{}, tail{};
    Homes homes{};
    std::vector<Move> moves;
    bool alternates = false;  // whether the blocks with `head` are spread evenly, too, instead of coming first
    Overlap overlap = Overlap::kBlock;

    // Returns true if it makes no difference how many blocks have `head`.
    [[nodiscard]] bool is_uniform() const;
    // Returns true if some blocks, spread evenly, have other homes than the rest.
    [[nodiscard]] bool spreads_homes() const;
    // Gets or sets the number of blocks, spread evenly, that such a move takes.
    [[nodiscard]] size_t moved(RoleSet roles, Tier tier) const;
    void set_moved(RoleSet roles, Tier tier, size_t count);
  };
  // A mixture that is a candidate, or, if `first` is 0, the same choice for all blocks.
  struct Proposal {
    Mixture mixture;
    size_t first = 0;     // with `head`: as many blocks as the forecast requires
    double seconds = 0;   // by forecast
    double distance = 0;  // bytes that are missing by forecast
    double rank = 0;      // candidates of lower rank are looked at first
  };

  PlanProposals(PlanCandidates& candidates, const Budget& budget, const Policy& policy);

  // Returns the settings from most device memory to least; no two are the same in every block.
  [[nodiscard]] std::vector<Saved> saved_settings() const;
  // Returns the candidates of these settings with all homes, unordered, without those that alternate.
  [[nodiscard]] std::vector<Proposal> all(const std::vector<Saved>& settings);
  // Returns the candidates of the same settings that alternate and whose forecast is below `seconds`. REQUIRES: all()
  // has been called.
  [[nodiscard]] std::vector<Proposal> alternations(double seconds) const;
  // Returns a setting as it applies to a block, with the groups that the user has fixed.
  [[nodiscard]] Saved followed(size_t block, Saved setting) const;
  [[nodiscard]] Choices choices_of(const Mixture& mixture, size_t first) const;
  [[nodiscard]] const Roles& roles() const { return roles_; }
  [[nodiscard]] bool has(Tier tier) const;
  // Returns the mixture that keeps everything, with all homes on the device, except for what the user has fixed.
  [[nodiscard]] Mixture nothing_moved() const;
  // Returns, for each tier beside the device, the homes of which all lives there that may; the nearest tier first.
  [[nodiscard]] std::vector<Homes> farthest() const;
  // Returns true if updates may run on the host while the device computes others.
  [[nodiscard]] bool may_update_on_host() const;
  // Returns the same homes, with the weights of blocks on the device unless the user has fixed their tier.
  [[nodiscard]] Homes with_weights_on_device(Homes homes) const;
  // Returns the same homes, with weights that may leave host memory for the disk moved there.
  [[nodiscard]] Homes with_weights_on_disk(Homes homes) const;
  // Returns true if the optimizer state of some blocks may live on disk while that of others is in host memory.
  [[nodiscard]] bool may_split_state(const Homes& homes) const;

 private:
  [[nodiscard]] std::vector<Tier> tiers() const;
  [[nodiscard]] bool are_alike(const Saved& setting, const Saved& other) const;  // in every block
  // Returns the same homes, with the weights outside blocks as near as may be, but tables in host memory.
  [[nodiscard]] Homes with_outer_near(Homes homes) const;
  // All settings with one residency of weights and state.
  struct Family {
    Homes homes{};
    std::vector<Move> moves;
    std::vector<Forecast> forecasts;  // by setting
  };
  // The forecasts of scheduled plans, from which all others are derived.
  struct KnownForecasts {
    std::vector<Homes> homes;
    std::vector<Forecast> by_setting;  // of the first homes
    std::vector<Forecast> by_homes;    // of the first setting
    // If some homes allow it: all state of blocks in host memory, and all of it on disk.
    std::optional<std::pair<Forecast, Forecast>> state_split;

    [[nodiscard]] const Forecast& of(const Homes& there) const;
  };
  [[nodiscard]] KnownForecasts make_forecasts();
  // Returns the family in which all blocks follow `homes`, then those with moves.
  [[nodiscard]] std::vector<Family> families_of(const Homes& homes, const KnownForecasts& known) const;
  // Returns the family with `share` of the difference between two forecasts added.
  [[nodiscard]] static Family changed(Family family, const Forecast& from, const Forecast& to, double share);
  // Appends to `result` the family with up to `most` blocks that have on disk the part of these roles that would not
  // fit host memory.
  void add_distant(const Family& family, RoleSet roles, size_t most, const Forecast& from, const Forecast& to,
                   std::vector<Family>& result) const;
  void add_proposals(const Family& family, std::vector<Proposal>& result) const;
  // Adds mixtures in which the last blocks have their optimizer state on the device. REQUIRES: a family without moves.
  void add_resident_state(const Family& family, const KnownForecasts& known, std::vector<Proposal>& result) const;
  // Adds a mixture if `tail` alone does not fit and is faster: as many first blocks as needed are treated as `head`.
  void add_mixture(const Mixture& mixture, const Forecast& head, const Forecast& tail,
                   std::vector<Proposal>& result) const;
  // Adds a candidate if alternating the two kinds of blocks is faster than all alike, since neither compute nor a lane
  // waits for the other: in the proportion that the forecasts find fastest.
  void add_alternation(const Mixture& mixture, const Forecast& head, const Forecast& tail, double seconds,
                       std::vector<Proposal>& result) const;
  [[nodiscard]] Proposal proposal(const Mixture& mixture, size_t first, const Forecast& forecast) const;
  [[nodiscard]] double rank_of(const LaneWork& work) const;

  PlanCandidates& candidates_;
  const PlanBuilder& builder_;
  Budget budget_;
  Policy policy_;
  size_t blocks_;
  Roles roles_;
  std::vector<Saved> settings_;   // of families_
  std::vector<Family> families_;  // the families that all() has looked at
};

}  // namespace spillway
