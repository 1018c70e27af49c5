// The candidates of a search for plans, ordered by forecasts.
//
// A *setting* is the activation policy of a block; *homes* are the tiers of weights, gradients and optimizer state. An
// idea is a candidate: one of each for all blocks, or a mixture of two.
#pragma once

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "plan/candidates.h"
#include "plan/forecast.h"

namespace spillway {

// Returns true if a block is one of `count` blocks that are spread evenly over `blocks`.
[[nodiscard]] bool is_spread(size_t block, size_t count, size_t blocks);

class PlanIdeas {
 public:
  using Saved = std::array<Treatment, kSavedGroups>;
  // The choices that are not made by block.
  struct Homes {
    Tier frozen_weights, trainable_weights, outer_weights, tables, gradients, optimizer_state;

    bool operator==(const Homes&) const = default;
  };
  // The numbers of blocks, spread evenly, whose residency differs from `homes`.
  struct Apart {
    size_t resident = 0;       // their weights on the device
    size_t distant = 0;        // of the others, their weights on the disk
    size_t distant_state = 0;  // their optimizer state on the disk, for updates on the device

    bool operator==(const Apart&) const = default;
  };
  // A candidate in which some blocks have one choice and the rest another.
  struct Mixture {
    BlockChoice head, tail;
    Homes homes;
    Apart apart;
    bool alternates = false;  // whether the blocks with `head` are spread evenly, too, instead of coming first
    Overlap overlap = Overlap::kBlock;
  };
  // A mixture that is a candidate, or, if `first` is 0, the same choice for all blocks.
  struct Idea {
    Mixture mixture;
    size_t first = 0;     // with `head`: as many blocks as the forecast requires
    double seconds = 0;   // by forecast
    double distance = 0;  // bytes that are missing by forecast
    double rank = 0;      // candidates of lower rank are looked at first
  };

  PlanIdeas(PlanCandidates& candidates, const Budget& budget, const Policy& policy);

  // Returns the settings from most device memory to least; no two are the same in every block.
  [[nodiscard]] std::vector<Saved> saved_settings() const;
  // Returns the candidates of these settings with all homes, unordered, without those that alternate.
  [[nodiscard]] std::vector<Idea> all(const std::vector<Saved>& settings);
  // Returns the candidates of the same settings that alternate and whose forecast is below `seconds`. REQUIRES: all()
  // has been called.
  [[nodiscard]] std::vector<Idea> alternations(double seconds) const;
  // Returns a setting as it applies to a block, with the groups that the user has fixed.
  [[nodiscard]] Saved followed(size_t block, Saved setting) const;
  [[nodiscard]] Choices choices_of(const Mixture& mixture, size_t first) const;
  // Moves the block's weights to this tier if they are farther (bring) or nearer (send), except those the user has
  // fixed.
  void bring_weights(BlockChoice& block, Tier tier) const;
  void send_weights(BlockChoice& block, Tier tier) const;
  [[nodiscard]] bool has(Tier tier) const;
  // Returns the mixture that keeps everything, with all homes on the device, except for what the user has fixed.
  [[nodiscard]] Mixture nothing_moved() const;
  // Returns true if there is optimizer state whose residency the user has not fixed.
  [[nodiscard]] bool may_move_state() const { return has_state_ && !policy_.optimizer_state; }
  // Returns true if there is a table whose residency the user has not fixed.
  [[nodiscard]] bool may_move_tables() const { return has_tables_ && !policy_.outer_weights; }
  // Returns true if updates may run on the host while the device computes others.
  [[nodiscard]] bool may_update_on_host() const;
  // Returns the same homes, with the weights of blocks on the device unless the user has fixed their tier.
  [[nodiscard]] Homes with_weights_on_device(Homes homes) const;
  // Returns the same homes, with weights that may leave host memory for the disk moved there.
  [[nodiscard]] Homes with_weights_on_disk(Homes homes) const;
  // Returns true if the optimizer state of some blocks may live on disk while that of others is in host memory.
  [[nodiscard]] bool may_split_state(const Homes& homes) const;

 private:
  [[nodiscard]] std::vector<Tier> tiers(std::optional<Tier> fixed) const;
  [[nodiscard]] bool are_alike(const Saved& setting, const Saved& other) const;  // in every block
  [[nodiscard]] std::vector<Homes> home_settings() const;
  // Returns the tiers for tables beside the other weights outside blocks. When these leave the device, tables are
  // looked up in host memory, which takes next to no time.
  [[nodiscard]] std::vector<Tier> table_tiers(Tier outer_weights) const;
  // All settings with one residency of weights and state.
  struct Family {
    Homes homes;
    Apart apart;
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
  // Returns the family in which all blocks follow `homes`, then those in which some blocks are kept apart.
  [[nodiscard]] std::vector<Family> families_of(const Homes& homes, const KnownForecasts& known) const;
  // Returns the family with `share` of the difference between two forecasts added.
  [[nodiscard]] static Family changed(Family family, const Forecast& from, const Forecast& to, double share);
  // Appends to `result` the family with up to `most` blocks that have on disk the part that would not fit host memory.
  void add_distant(const Family& family, size_t Apart::*count, size_t most, const Forecast& from, const Forecast& to,
                   std::vector<Family>& result) const;
  void add_ideas(const Family& family, std::vector<Idea>& result) const;
  // Adds mixtures in which the last blocks have their optimizer state on the device. REQUIRES: no block is kept apart.
  void add_resident_state(const Family& family, const KnownForecasts& known, std::vector<Idea>& result) const;
  // Adds a mixture if `tail` alone does not fit and is faster: as many first blocks as needed are treated as `head`.
  void add_mixture(const Mixture& mixture, const Forecast& head, const Forecast& tail, std::vector<Idea>& result) const;
  // Adds a candidate if alternating the two kinds of blocks is faster than all alike, since neither compute nor a lane
  // waits for the other: in the proportion that the forecasts find fastest.
  void add_alternation(const Mixture& mixture, const Forecast& head, const Forecast& tail, double seconds,
                       std::vector<Idea>& result) const;
  [[nodiscard]] Idea idea(const Mixture& mixture, size_t first, const Forecast& forecast) const;
  [[nodiscard]] double rank_of(const Forecast& forecast) const;

  PlanCandidates& candidates_;
  const PlanBuilder& builder_;
  Budget budget_;
  Policy policy_;
  size_t blocks_;
  bool has_state_ = false;  // whether the graph has state of an optimizer
  bool has_tables_ = false;
  std::vector<Saved> settings_;   // of families_
  std::vector<Family> families_;  // the families that all() has looked at
};

}  // namespace spillway
