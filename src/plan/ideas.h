// What a search for plans may look at, put in order by forecasts.
//
// A *setting* says what happens to the saved activations of a block, *homes* where weights, gradients and optimizer
// state live. An idea is one of each for all blocks, or a mixture of two.
#pragma once

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "plan/candidates.h"
#include "plan/forecast.h"

namespace spillway {

// Whether a block is one of `count` that are spread evenly over `blocks`.
[[nodiscard]] bool is_spread(size_t block, size_t count, size_t blocks);

class PlanIdeas {
 public:
  using Saved = std::array<Treatment, kSavedGroups>;
  // What is not chosen by block.
  struct Homes {
    Tier frozen_weights, trainable_weights, outer_weights, tables, gradients, optimizer_state;

    bool operator==(const Homes&) const = default;
  };
  // So many blocks, spread evenly, are kept elsewhere than `homes` says.
  struct Apart {
    size_t resident = 0;       // their weights on the device
    size_t distant = 0;        // of the others, their weights on the disk
    size_t distant_state = 0;  // their optimizer state on the disk, for updates on the device

    bool operator==(const Apart&) const = default;
  };
  // Where some blocks are treated one way and the rest another.
  struct Mixture {
    BlockChoice head, tail;
    Homes homes;
    Apart apart;
    bool alternates = false;  // those with `head` are spread evenly, too, and not the first ones
    Overlap overlap = Overlap::kBlock;
  };
  // A mixture worth a look, or, with `first` 0, all blocks alike.
  struct Idea {
    Mixture mixture;
    size_t first = 0;     // with `head`: as many blocks as the forecast asks for
    double seconds = 0;   // by forecast
    double distance = 0;  // bytes that are missing by forecast
    double rank = 0;      // less is looked at first
  };

  PlanIdeas(PlanCandidates& candidates, const Budget& budget, const Policy& policy);

  // From most device memory to least, each different in some block.
  [[nodiscard]] std::vector<Saved> saved_settings() const;
  // Of these settings with all homes, in no order, without those that alternate.
  [[nodiscard]] std::vector<Idea> all(const std::vector<Saved>& settings);
  // Those that alternate, of the same settings, of which forecasts say that they take less than so many seconds.
  // REQUIRES: all() has been called.
  [[nodiscard]] std::vector<Idea> alternations(double seconds) const;
  // What a setting comes to in a block, where the user has fixed some of it.
  [[nodiscard]] Saved followed(size_t block, Saved setting) const;
  [[nodiscard]] Choices choices_of(const Mixture& mixture, size_t first) const;
  // The block's weights live on this tier, or where they are if that is nearer, or farther; or where the user says.
  void bring_weights(BlockChoice& block, Tier tier) const;
  void send_weights(BlockChoice& block, Tier tier) const;
  [[nodiscard]] bool has(Tier tier) const;
  // All kept, and at home on the device, but for what the user has fixed.
  [[nodiscard]] Mixture nothing_moved() const;
  // Whether there is optimizer state, and nobody has said where it lives.
  [[nodiscard]] bool may_move_state() const { return has_state_ && !policy_.optimizer_state; }
  // Whether there is a table, and nobody has said where it lives.
  [[nodiscard]] bool may_move_tables() const { return has_tables_ && !policy_.outer_weights; }
  // Whether updates may run on the host, while the device computes others.
  [[nodiscard]] bool may_update_on_host() const;
  // The same homes where what may stay on the device does: the weights of blocks.
  [[nodiscard]] Homes with_weights_on_device(Homes homes) const;
  // Where what may leave the host's memory for the disk does.
  [[nodiscard]] Homes with_weights_on_disk(Homes homes) const;
  // Whether the optimizer state of some blocks may live on the disk where that of others is in the host's memory.
  [[nodiscard]] bool may_split_state(const Homes& homes) const;

 private:
  [[nodiscard]] std::vector<Tier> tiers(std::optional<Tier> fixed) const;
  [[nodiscard]] bool are_alike(const Saved& setting, const Saved& other) const;  // in every block
  [[nodiscard]] std::vector<Homes> home_settings() const;
  // Where tables may live beside the other weights outside blocks. Where these leave the device, tables are looked up
  // in the host's memory, which takes next to no time.
  [[nodiscard]] std::vector<Tier> table_tiers(Tier outer_weights) const;
  // All settings where weights and state live somewhere.
  struct Family {
    Homes homes;
    Apart apart;
    std::vector<Forecast> forecasts;  // by setting
  };
  // What has been scheduled to tell all others from.
  struct KnownForecasts {
    std::vector<Homes> homes;
    std::vector<Forecast> by_setting;  // of the first homes
    std::vector<Forecast> by_homes;    // of the first setting
    // Where some homes allow it: all state of blocks in the host's memory, and on the disk.
    std::optional<std::pair<Forecast, Forecast>> state_split;

    [[nodiscard]] const Forecast& of(const Homes& there) const;
  };
  [[nodiscard]] KnownForecasts make_forecasts();
  // All blocks as `homes` says first, then those where some blocks are apart.
  [[nodiscard]] std::vector<Family> families_of(const Homes& homes, const KnownForecasts& known) const;
  // The family where so much of what is different between two forecasts is added.
  [[nodiscard]] static Family changed(Family family, const Forecast& from, const Forecast& to, double share);
  // To `result`: the family with something of some blocks, up to `most`, on the disk that would not fit the host's
  // memory.
  void add_distant(const Family& family, size_t Apart::*count, size_t most, const Forecast& from, const Forecast& to,
                   std::vector<Family>& result) const;
  void add_ideas(const Family& family, std::vector<Idea>& result) const;
  // Mixtures in which the last blocks have their optimizer state on the device. REQUIRES: nothing is apart.
  void add_resident_state(const Family& family, const KnownForecasts& known, std::vector<Idea>& result) const;
  // Where `tail` alone does not fit and is faster: as many of the first blocks as ask for it are treated as `head`.
  void add_mixture(const Mixture& mixture, const Forecast& head, const Forecast& tail, std::vector<Idea>& result) const;
  // Where blocks of either kind between each other are faster than all alike, since neither computing nor a lane is
  // left waiting for the other: in the proportion that the forecasts take for the fastest.
  void add_alternation(const Mixture& mixture, const Forecast& head, const Forecast& tail, double seconds,
                       std::vector<Idea>& result) const;
  [[nodiscard]] Idea idea(const Mixture& mixture, size_t first, const Forecast& forecast) const;
  [[nodiscard]] double rank_of(const Forecast& forecast) const;

  PlanCandidates& candidates_;
  const PlanBuilder& builder_;
  Budget budget_;
  Policy policy_;
  size_t blocks_;
  bool has_state_ = false;  // of an optimizer, in the graph
  bool has_tables_ = false;
  std::vector<Saved> settings_;   // of families_
  std::vector<Family> families_;  // that all() has looked at
};

}  // namespace spillway
