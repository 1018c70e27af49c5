// The reference model of preference training and online reinforcement learning, as it follows the trained one.
#pragma once

#include <cstdint>

namespace spillway::config {

// The reference becomes (1 - mixup_alpha) x reference + mixup_alpha x policy after each multiple of sync_steps.
struct ReferenceSync {
  double mixup_alpha = 0.6;
  int64_t sync_steps = 512;
};

}  // namespace spillway::config
