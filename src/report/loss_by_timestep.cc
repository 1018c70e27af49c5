#include "report/loss_by_timestep.h"

#include <algorithm>

namespace spillway {

void LossByTimestep::add(double timestep, double loss) {
  constexpr double kLast = 1000;
  constexpr int64_t kMemory = 100;
  const auto part = static_cast<size_t>(std::clamp(timestep / kLast, 0.0, 1.0) * kParts);
  Part& p = parts_[std::min(part, kParts - 1)];
  ++p.samples;
  p.loss += (loss - p.loss) / static_cast<double>(std::min(p.samples, kMemory));
  is_empty_ = false;
}

}  // namespace spillway
