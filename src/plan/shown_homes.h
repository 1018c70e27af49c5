// The homes of a plan as pages and reports show them: by block and kind, and for groups outside blocks.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "plan/choices.h"

namespace spillway {

// The farthest tier of the weights of a block, or of those outside blocks, and the residency of their optimizer state.
struct BlockHomes {
  Tier frozen = Tier::kDevice;
  Tier trainable = Tier::kDevice;
  Residency state;
  std::optional<Tier> experts;  // where they have a home apart from the other weights

  [[nodiscard]] Tier weights() const { return std::max(frozen, trainable); }
  bool operator==(const BlockHomes&) const = default;
};

// A block without groups of a kind is shown with the home of the other blocks' groups of that kind.
struct ShownHomes {
  std::vector<BlockHomes> blocks;
  Tier outer_weights = Tier::kDevice;
  Tier tables = Tier::kDevice;  // as outer_weights, where there are none
  Tier gradients = Tier::kDevice;
  Residency state;  // outside blocks, else of most blocks of which it has left the device
};

[[nodiscard]] ShownHomes shown_homes(const Graph& graph, const Choices& choices);

}  // namespace spillway
