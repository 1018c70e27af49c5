// The work of a fold in which groups of neighbouring ranks add up their contributions first (FoldOrder::together).
#pragma once

#include <algorithm>

#include "dist/peers.h"
#include "tensor/cut.h"

namespace spillway {

// Each rank of a group adds up the group's contributions to some of the parts: a group's rank i those of parts i,
// i + together, ... It then gives the sum of a part to every rank that has it.
struct FoldGroups {
  Cut cut;
  FoldOrder order;

  // The groups in which somebody contributes.
  [[nodiscard]] int count() const { return (order.contributors + order.together - 1) / order.together; }
  // The group of a rank.
  [[nodiscard]] int of(int rank) const { return rank / order.together; }
  [[nodiscard]] int first(int group) const { return group * order.together; }
  // Returns how many ranks of a group contribute: its first ones.
  [[nodiscard]] int contributors(int group) const {
    return std::clamp(order.contributors - first(group), 0, order.together);
  }
  // Returns the rank that adds up a group's contributions to a part.
  [[nodiscard]] int adder(int group, int part) const { return first(group) + part % order.together; }
  // The most parts whose contributions one rank adds up.
  [[nodiscard]] int most_parts() const { return (cut.ranks + order.together - 1) / order.together; }
  // Calls `body` with each part whose contributions a rank adds up, in order.
  template <typename Body>
  void for_parts_of(int rank, const Body& body) const {
    for (int part = rank % order.together; part < cut.ranks; part += order.together) body(part);
  }
};

}  // namespace spillway
