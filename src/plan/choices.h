// The decisions of a plan, and their meaning for every value: where it lives between uses, whether the backward pass
// recomputes it, and on which side an operation computes.
#pragma once

#include <cstdint>
#include <vector>

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

// Where a group lives between uses, and on which side the operations run that work on it alone: updates of optimizer
// state, sums over gradients, lookups in a table. All others run on the device.
struct Residency {
  Tier home = Tier::kDevice;
  Tier site = Tier::kDevice;

  bool operator==(const Residency&) const = default;
};
// Returns the residency of a group in a tier: what may be worked on in host memory is, if it lives there.
[[nodiscard]] Residency residency_in(Tier home, const Group& group);

// Returns the farthest tier that any group goes to, else whether any is recomputed.
[[nodiscard]] ActivationPolicy summary(const Saved& saved);
// Returns the policy that treats every group alike, except that boundary values are kept where the others are
// recomputed.
[[nodiscard]] Saved saved_alike(ActivationPolicy activation_policy);

struct Choices {
  std::vector<Residency> groups;  // by group of the graph
  std::vector<Saved> saved;       // by block
  Overlap overlap = Overlap::kWide;
  bool synchronous_activations = false;  // saved activations move without overlap, whatever `overlap` says
};

// Moves the groups of a pattern to a tier.
void move_groups(const Graph& graph, const GroupPattern& pattern, Tier home, Choices& choices);

// A flag for each of many items, a byte each: they are read often, and the bits of a std::vector<bool> take several
// times as long to read.
using Flags = std::vector<uint8_t>;

struct Placement {
  std::vector<Tier> homes;  // by value: where it lives between uses
  Flags recomputed;         // by value
  Flags synchronous;        // by value: it moves without overlap
  std::vector<Tier> sites;  // by operation: kDevice, or kHost
};

// Derives the placement from the choices. `facts` is facts_of(graph). REQUIRES: one choice per group and per block.
// Activations saved by the last block are never moved, since the backward pass needs them at once.
[[nodiscard]] Placement place_values(const Graph& graph, const GraphFacts& facts, const Choices& choices,
                                     const OwnFiles& own_files);

}  // namespace spillway
