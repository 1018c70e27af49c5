// Losses of tokens at their limits, from their formulas in float64. What TRL makes of whole runs is in
// tests/online_parity_test.cc.
#include "objectives/online/token_losses.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "graph/autodiff.h"
#include "ops/add/add.h"
#include "ops/pointwise/pointwise.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

struct Clipped {
  Numbers losses, gradients, raised;
};

// Clips ratios to 0.9 and 1.1. The gradients are those of the sum of the losses with respect to the ratios.
Clipped clipped(const Numbers& ratios, const Numbers& advantages) {
  const ValueType type{DType::kF32, {static_cast<int64_t>(ratios.size())}};
  Graph graph;
  Builder b(graph);
  const ValueId ratio = b.input("ratio", type, ValueKind::kTrainableWeight);
  const ValueId advantage = b.input("advantage", type, ValueKind::kBatch);
  const ValueId ones = b.input("ones", type, ValueKind::kBatch);
  const train::ClippedLoss loss = train::clipped_surrogate(b, ratio, train::clamp(b, ratio, 0.9, 1.1), advantage);
  const ValueId raised = train::is_raised(b, loss);
  std::vector<WeightGradient> gradients = {{.weight = ratio}};
  append_backward(b, weighted_sum(b, loss.loss, ones), gradients, ops::add);
  const Run run(graph, {{ratio, ratios}, {advantage, advantages}, {ones, Numbers(ratios.size(), 1)}});
  return {run.numbers(loss.loss), run.numbers(gradients[0].gradient), run.numbers(raised)};
}

}  // namespace

TEST_CASE("a clipped loss is as exact where the ratio is far out as where it is not") {
  const Numbers ratios = {1, 1.05, 1.2, 0.5, 1e4, 1e9, 1e30, 1e-9, 1.3, 0.2},
                advantages = {0.3, -0.7, 0.4, -0.6, 0.7, 1.1, 0.9, -0.5, -2, 3};
  const Clipped of = clipped(ratios, advantages);
  Numbers losses, gradients, raised;
  for (size_t i = 0; i < ratios.size(); ++i) {
    const double ratio = ratios[i], within = std::clamp(ratio, 0.9, 1.1), a = advantages[i];
    const bool is_unclipped = -ratio * a >= -within * a;
    losses.push_back(-std::min(ratio * a, within * a));
    gradients.push_back(is_unclipped ? -a : 0);
    raised.push_back(is_unclipped ? 0 : 1);
  }
  check_close(of.losses, losses, DType::kF32, 1e-6);
  check_close(of.gradients, gradients, DType::kF32, 1e-6);
  CHECK(of.raised == raised);
}
