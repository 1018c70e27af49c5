// The parts of a micro-batch that a step adds up beside its gradients: the ranks exchange them.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "objectives/metrics.h"

namespace spillway::train {

struct Contribution {
  double loss = 0;     // the share of the step's
  int64_t tokens = 0;  // that were trained on
  std::vector<MetricSums::Entry> metrics;
  std::vector<double> observed;  // StepFeed::observe()
};

// The texts keep every bit, and are for ranks of the same program.
[[nodiscard]] std::string to_text(const Contribution& contribution);
// Returns the contribution of a text. Its metrics have their keys in `keys`, which grows.
[[nodiscard]] Contribution contribution_from(std::string_view text, std::set<std::string, std::less<>>& keys);

}  // namespace spillway::train
