// Finds the steps of other lanes that a step waits for: a step that touches bytes waits for the last that touched them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/sizes.h"
#include "plan/schedule.h"

namespace spillway {

class Waits {
 public:
  // Adds the waits of the next step. REQUIRES: called in the order of steps.
  void add(std::span<const int32_t> waits) {
    steps_.insert(steps_.end(), waits.begin(), waits.end());
    ends_.push_back(static_cast<int32_t>(steps_.size()));
  }
  // Returns the steps that `step` waits for, all of them earlier; empty if the step was not added.
  [[nodiscard]] std::span<const int32_t> of(size_t step) const {
    if (step >= ends_.size()) return {};
    const int32_t begin = step == 0 ? 0 : ends_[step - 1];
    return subspan_of(steps_, begin, ends_[step] - begin);
  }

 private:
  std::vector<int32_t> steps_;
  std::vector<int32_t> ends_;  // by step
};

// Finds the waits within each section that shared bytes require, without those that another implies. `offsets` is by
// buffer; if it is empty, no two buffers share bytes, and only values are waited for.
[[nodiscard]] Waits find_waits(const Schedule& schedule, std::span<const int64_t> offsets);

}  // namespace spillway
