// One training sequence, tokenised.
#pragma once

#include <cstdint>
#include <vector>

namespace spillway::data {

struct Row {
  std::vector<int32_t> input_ids;
  std::vector<int32_t> labels;  // the same length: a token that is to be learned carries its own id, others -100
};

// What is no target, as in PyTorch.
constexpr int32_t kIgnoredLabel = -100;

}  // namespace spillway::data
