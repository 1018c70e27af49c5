// Groups blocks with equal choices, or with a few choices in turn, for the pages that show a plan.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "plan/shown_homes.h"

namespace spillway {

// The choices of a block, as they are shown.
struct BlockChoice {
  Saved saved{};
  BlockHomes homes;

  bool operator==(const BlockChoice&) const = default;
};

// Blocks [begin, end) and their distinct choices, each with its number of blocks, in the order of first use.
struct BlockRun {
  size_t begin = 0, end = 0;
  std::vector<std::pair<BlockChoice, size_t>> kinds;
};

// Groups all blocks, in order. If up to three choices come again and again, one run stands for all of these blocks.
[[nodiscard]] std::vector<BlockRun> runs_of(const std::vector<BlockChoice>& blocks);

}  // namespace spillway
