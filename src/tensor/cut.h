// The cut of a flat value over the ranks of a job.
#pragma once

#include <algorithm>
#include <cstdint>

namespace spillway {

// Parts begin at multiples of so many elements: the blocks in which norms are summed, which blocks of 8-bit states
// (256) and of 4-bit codes (64) divide.
inline constexpr int64_t kCutBlock = 4096;

// Rank r holds elements [begin(r), end(r)). All ranks have room for `part_elems`, so that they have the same layout;
// the last parts may be shorter, or empty. A job may have several times `ranks`: each group of so many neighbours then
// has all parts, and rank r that of rank r mod `ranks`.
struct Cut {
  int64_t elems = 0, part_elems = 0;
  int ranks = 1;

  [[nodiscard]] constexpr int64_t begin(int rank) const { return std::min(elems, rank % ranks * part_elems); }
  [[nodiscard]] constexpr int64_t end(int rank) const { return std::min(elems, (rank % ranks + 1) * part_elems); }
  [[nodiscard]] constexpr int64_t count(int rank) const { return end(rank) - begin(rank); }
  // Returns the first rank of the group that a rank is in.
  [[nodiscard]] constexpr int group_of(int rank) const { return rank - rank % ranks; }

  friend bool operator==(const Cut&, const Cut&) = default;
};

// Returns the cut with the smallest parts that are multiples of `unit`. A value with a number for each so many elements
// of another is cut as that, where its unit is as many times smaller. REQUIRES: elems >= 0, ranks >= 1, unit >= 1.
[[nodiscard]] constexpr Cut cut_of(int64_t elems, int ranks, int64_t unit = kCutBlock) {
  const int64_t units = (elems + unit - 1) / unit;
  return {.elems = elems, .part_elems = (units + ranks - 1) / ranks * unit, .ranks = ranks};
}

}  // namespace spillway
