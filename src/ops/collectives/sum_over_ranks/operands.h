// The operands of the sum of what ranks have given each other.
#pragma once

#include <cstdint>

#include "ops/optimizers/either_side.h"

namespace spillway::ops {

// The numbers of all ranks lie behind each other, those of each in `room` places.
struct NumbersOfRanks {
  const float* numbers;
  int64_t room, ranks;

  [[nodiscard]] SPILLWAY_EITHER_SIDE float sum(int64_t row) const {
    float sum = numbers[row];
    for (int64_t rank = 1; rank < ranks; ++rank) sum += numbers[rank * room + row];
    return sum;
  }
};

// The inputs: x is there for its gradient.
namespace sum_of_ranks_op {
enum Input : int { kX, kNumbers };
}

}  // namespace spillway::ops
