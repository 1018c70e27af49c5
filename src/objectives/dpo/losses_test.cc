// The losses of DPO against float64, from the formulas of their papers. What TRL makes of whole runs is in
// tests/preference_parity_test.cc.
#include "objectives/dpo/losses.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

using Loss = config::PreferenceLoss;

constexpr double kBeta = 0.2, kSmoothing = 0.1;

// A pair: log-ratios of policy and reference, and lengths.
struct Pair {
  double chosen, rejected, chosen_tokens, rejected_tokens;

  [[nodiscard]] double logit() const { return kBeta * (chosen - rejected); }
  [[nodiscard]] double per_token() const { return chosen / chosen_tokens - rejected / rejected_tokens; }
};
const std::vector<Pair> kPairs = {{8, -3, 4, 9}, {-20, 4, 7, 2}, {-3, -3, 5, 5}, {0.5, 0, 1, 3}};

double share(double x) { return 1 / (1 + std::exp(-x)); }
double softplus(double x) { return std::log1p(std::exp(x)); }
double squared(double x) { return x * x; }

struct LossCase {
  Loss loss;
  double (*of)(const Pair& pair);
};
const LossCase kLosses[] = {
    {Loss::kSigmoid, [](const Pair& p) { return softplus(-p.logit()); }},
    {Loss::kHinge, [](const Pair& p) { return std::max(0.0, 1 - p.logit()); }},
    {Loss::kIpo, [](const Pair& p) { return squared(p.per_token() - 1 / (2 * kBeta)); }},
    {Loss::kSigmoidNorm, [](const Pair& p) { return softplus(-kBeta * p.per_token()); }},
    {Loss::kRobust,
     [](const Pair& p) {
       return ((1 - kSmoothing) * softplus(-p.logit()) - kSmoothing * softplus(p.logit())) / (1 - 2 * kSmoothing);
     }},
    {Loss::kExoPair,  // the Kullback-Leibler divergence of two choices from 1 - smoothing and smoothing
     [](const Pair& p) {
       const double won = share(p.logit()), lost = share(-p.logit());
       return won * std::log(won / (1 - kSmoothing)) + lost * std::log(lost / kSmoothing);
     }},
    {Loss::kBcoPair, [](const Pair& p) { return softplus(-kBeta * p.chosen) + softplus(kBeta * p.rejected); }},
    {Loss::kNcaPair,
     [](const Pair& p) {
       return softplus(-kBeta * p.chosen) + (softplus(kBeta * p.chosen) + softplus(kBeta * p.rejected)) / 2;
     }},
    {Loss::kSppoHard,
     [](const Pair& p) { return squared(p.chosen - 0.5 / kBeta) + squared(p.rejected + 0.5 / kBeta); }},
    {Loss::kApoZero, [](const Pair& p) { return 1 - share(kBeta * p.chosen) + share(kBeta * p.rejected); }},
    {Loss::kApoDown, [](const Pair& p) { return share(kBeta * p.chosen) + 1 - share(p.logit()); }},
};

double loss_of_pairs(Loss loss) {
  Graph graph;
  Builder b(graph);
  std::map<ValueId, Numbers> inputs;
  const auto column = [&](const char* name, double (*of)(const Pair& pair)) {
    const ValueId id = b.input(name, {DType::kF32, {std::ssize(kPairs)}}, ValueKind::kBatch);
    for (const Pair& pair : kPairs) inputs[id].push_back(of(pair));
    return id;
  };
  // The reference holds one completion for as likely as the other.
  const auto reference = [](const Pair&) { return -16.0; };
  const train::dpo::Pairs pairs{
      .chosen = column("chosen", [](const Pair& p) { return p.chosen - 16; }),
      .rejected = column("rejected", [](const Pair& p) { return p.rejected - 16; }),
      .ref_chosen = column("ref_chosen", reference),
      .ref_rejected = column("ref_rejected", reference),
      .chosen_tokens = column("chosen_tokens", [](const Pair& p) { return p.chosen_tokens; }),
      .rejected_tokens = column("rejected_tokens", [](const Pair& p) { return p.rejected_tokens; })};
  config::PreferenceSettings settings;
  settings.beta = kBeta;
  settings.label_smoothing = kSmoothing;
  settings.losses = {{loss}};
  const ValueId result = train::dpo::append_loss(b, settings, pairs);
  return Run(graph, inputs).numbers(result).at(0);
}

}  // namespace

TEST_CASE("the losses of DPO are the means of their papers' formulas over the pairs") {
  for (const LossCase& one : kLosses) {
    CAPTURE(config::name_of(one.loss));
    double mean = 0;
    for (const Pair& pair : kPairs) mean += one.of(pair) / static_cast<double>(kPairs.size());
    CHECK(std::abs(loss_of_pairs(one.loss) - mean) <= 1e-6 * std::max(1.0, mean));
  }
}
