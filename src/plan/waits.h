// Which steps of other lanes a step waits for: whoever touches bytes waits for whoever touched them last.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/sizes.h"
#include "plan/schedule.h"

namespace spillway {

class Waits {
 public:
  // In the order of steps.
  void add(std::span<const int32_t> waits) {
    steps_.insert(steps_.end(), waits.begin(), waits.end());
    ends_.push_back(static_cast<int32_t>(steps_.size()));
  }
  // What `step` waits for, all of it earlier; nothing where the step was not added.
  [[nodiscard]] std::span<const int32_t> of(size_t step) const {
    if (step >= ends_.size()) return {};
    const int32_t begin = step == 0 ? 0 : ends_[step - 1];
    return subspan_of(steps_, begin, ends_[step] - begin);
  }

 private:
  std::vector<int32_t> steps_;
  std::vector<int32_t> ends_;  // by step
};

// What the bytes that steps share require within a section, and none that another wait implies. `offsets` by buffer.
[[nodiscard]] Waits find_waits(const Schedule& schedule, std::span<const int64_t> offsets);

}  // namespace spillway
