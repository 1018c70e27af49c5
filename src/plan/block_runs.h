// Blocks that are treated alike, or in a few ways in turn, as a plan shows them.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "plan/choices.h"

namespace spillway {

// Blocks [begin, end), and the ways in which they are treated with how many have each, in the order of the first.
struct BlockRun {
  size_t begin = 0, end = 0;
  std::vector<std::pair<BlockChoice, size_t>> kinds;
};

// All blocks, in order. Where up to three ways come again and again, one run stands for all of them.
[[nodiscard]] std::vector<BlockRun> runs_of(const std::vector<BlockChoice>& blocks);

}  // namespace spillway
