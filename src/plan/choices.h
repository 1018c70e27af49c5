// The decisions of a plan, and their meaning for every value: where it lives between uses, whether the backward pass
// recomputes it, and on which side an operation computes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/index.h"
#include "graph/graph.h"
#include "plan/budget.h"
#include "plan/facts.h"

namespace spillway {

// The distance by which transfers run ahead of and behind the computation. More costs device memory and saves waiting.
enum class Overlap : uint8_t {
  kSynchronous,  // compute waits for every transfer
  kNarrow,       // twice what an operation needs on average may be under way, or all that one operation needs
  kWide,         // eight times that
  kBlock,        // as kWide, or all that one block needs of a micro-batch
};

struct BlockChoice {
  std::array<Treatment, kSavedGroups> saved{};  // all kept
  Tier frozen_weights = Tier::kDevice;
  Tier trainable_weights = Tier::kDevice;
  std::optional<Tier> state;   // where its optimizer state lives, if not where that of others does
  bool device_update = false;  // its update runs on the device, for which its state comes, wherever that of others runs

  [[nodiscard]] Treatment& operator[](SavedGroup group) { return nth(saved, group); }
  [[nodiscard]] Treatment operator[](SavedGroup group) const { return nth(saved, group); }
  bool operator==(const BlockChoice&) const = default;
};

// Returns the farthest tier that any group goes to, else whether any is recomputed.
[[nodiscard]] Treatment summary(const BlockChoice& choice);
// Returns the tier in which its weights live: the farther one of frozen and trainable weights.
[[nodiscard]] Tier weights_tier(const BlockChoice& choice);

// Returns the choice that treats every group alike, except that boundary values are kept where the others are
// recomputed.
[[nodiscard]] BlockChoice block_choice(Treatment saved);

struct Choices {
  std::vector<BlockChoice> blocks;
  Tier outer_weights = Tier::kDevice;  // head, final norm and whatever else has weights outside blocks, but for
  Tier tables = Tier::kDevice;         // an embedding that is not the head, too: in host memory the host looks it up
  Tier gradients = Tier::kDevice;
  Tier optimizer_state = Tier::kDevice;
  Tier update_site = Tier::kDevice;  // kHost: operations on optimizer state that is away run on the host_compute lane
  Overlap overlap = Overlap::kWide;
  bool synchronous_activations = false;  // saved activations move without overlap, whatever `overlap` says
};

// Returns the tier of the optimizer state of a block's weights, or, for kNone, of the weights outside blocks.
[[nodiscard]] Tier state_tier(const Choices& choices, BlockId block);
// Returns the side on which the update of those weights runs: kDevice or kHost.
[[nodiscard]] Tier update_tier(const Choices& choices, BlockId block);

// A flag for each of many items, a byte each: they are read often, and the bits of a std::vector<bool> take several
// times as long to read.
using Flags = std::vector<uint8_t>;

struct Placement {
  std::vector<Tier> homes;  // by value: where it lives between uses
  Flags recomputed;         // by value
  Flags synchronous;        // by value: it moves without overlap
  std::vector<Tier> sites;  // by operation: kDevice, or kHost
};

// Derives the placement from the choices. `facts` is facts_of(graph). REQUIRES: one choice per block. Activations saved
// by the last block are never moved, since the backward pass needs them at once.
[[nodiscard]] Placement place_values(const Graph& graph, const GraphFacts& facts, const Choices& choices,
                                     const OwnFiles& own_files);

}  // namespace spillway
