// One training sequence, tokenised.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace spillway::data {

struct Row {
  std::vector<int32_t> input_ids;
  std::vector<int32_t> labels;  // the same length: a token that is to be learned carries its own id, others -100
  bool is_cut = false;          // its type left out what came behind

  // Of ids and labels: either may be beyond a model's vocabulary.
  [[nodiscard]] int32_t largest_id() const {
    int32_t largest = -1;
    for (const auto* numbers : {&input_ids, &labels}) {
      for (const int32_t id : *numbers) largest = std::max(largest, id);
    }
    return largest;
  }
};

// What is no target, as in PyTorch.
constexpr int32_t kIgnoredLabel = -100;

}  // namespace spillway::data
