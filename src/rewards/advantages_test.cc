#include "rewards/advantages.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "tests/support/source_folder.h"

using namespace spillway;
using namespace spillway::rewards;

namespace {

constexpr int64_t kGroup = 4;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Json golden_rounds() {
  std::ifstream file(testing::source_folder() / "tests/golden/rewards/advantages.json");
  return Json::parse(file);
}

RewardTable table_of_rows(const Json& rows) {
  RewardTable table{static_cast<int64_t>(rows.size()), static_cast<int64_t>(rows[0].size()), {}};
  for (const Json& row : rows) {
    for (const Json& reward : row)
      table.values.push_back(static_cast<float>(reward.is_null() ? kNan : reward.get<double>()));
  }
  return table;
}

Advantages advantages_of_case(const RewardTable& table, const std::vector<double>& weights,
                              const std::vector<double>& kl, const Json& one) {
  if (one.contains("rloo")) {
    LeaveOneOutAdvantages options{.beta = one["beta"], .kl = kl, .normalize = one["normalize"]};
    if (!one["clip_range"].is_null()) options.clip_range = {one["clip_range"][0], one["clip_range"][1]};
    return advantages_of(table, weights, kGroup, options);
  }
  GroupedAdvantages options;
  if (one.contains("aggregation")) {
    options.aggregation = RewardAggregation::kNormalizeThenSum;
  } else {
    options.scale = one["scale"] == "group"   ? ScaleRewards::kGroup
                    : one["scale"] == "batch" ? ScaleRewards::kBatch
                                              : ScaleRewards::kNone;
  }
  return advantages_of(table, weights, kGroup, options);
}

void check_near(double ours, const Json& theirs, double tolerance = 1e-6) {
  CHECK(std::isnan(ours) == theirs.is_null());
  if (theirs.is_null() || std::isnan(ours)) return;
  const double expected = theirs.get<double>();
  CHECK(std::abs(ours - expected) <= tolerance * std::max(1.0, std::abs(expected)));
}

}  // namespace

TEST_CASE("advantages are those that TRL's formulas give in torch") {
  for (const Json& round : golden_rounds()) {
    const RewardTable table = table_of_rows(round["rewards"]);
    const auto weights = round["weights"].get<std::vector<double>>();
    const auto kl = round["kl"].get<std::vector<double>>();
    for (const Json& one : round["cases"]) {
      CAPTURE(one.dump().substr(0, 120));
      const Advantages ours = advantages_of_case(table, weights, kl, one);
      REQUIRE(ours.values.size() == one["advantages"].size());
      for (size_t i = 0; i < ours.values.size(); ++i) {
        CAPTURE(i);
        check_near(ours.values[i], one["advantages"][i], 2e-6);
      }
      check_near(ours.frac_reward_zero_std, one["frac_reward_zero_std"]);
    }
  }
}

TEST_CASE(
    "pairs are scored by weighted sums, less the penalty of those that did not end, and no reward counts nothing") {
  const auto nan = static_cast<float>(kNan);
  const RewardTable table{4, 2, {1.0F, 0.5F, nan, nan, nan, 2.0F, -1.0F, 1.0F}};
  const std::vector<double> weights = {1, 0.5};
  const Advantages scores = advantages_of(
      table, weights, 2, PairScores{.missing_eos_penalty = 0.25, .is_truncated = {false, true, false, false}});
  CHECK(scores.values == std::vector<float>{1.25F, -0.25F, 1.0F, -0.5F});
  CHECK(scores.frac_reward_zero_std == 0);
  CHECK(advantages_of(table, std::vector<double>{0, 0}, 2, PairScores{.is_truncated = std::vector<bool>(4)})
            .frac_reward_zero_std == 1);
}

TEST_CASE("the sums and metrics of a round's rewards are torch's") {
  for (const Json& round : golden_rounds()) {
    const RewardTable table = table_of_rows(round["rewards"]);
    const auto weights = round["weights"].get<std::vector<double>>();
    const std::vector<double> sums = weighted_sum(table, weights);
    for (size_t i = 0; i < sums.size(); ++i) check_near(sums[i], round["sums"][i]);
    std::vector<std::string> names;
    for (int64_t i = 0; i < table.functions; ++i) names.push_back(fmt::format("f{}", i));
    const auto metrics = reward_metrics(table, weights, names);
    REQUIRE(metrics.size() == 2 * names.size() + 2);
    CHECK(metrics[0].first == "rewards/f0/mean");
    CHECK(metrics[1].first == "rewards/f0/std");
    CHECK(metrics[metrics.size() - 2].first == "reward");
    CHECK(metrics.back().first == "reward_std");
    for (size_t i = 0; i < metrics.size(); ++i) {
      // The goldens have the sum first, then the functions.
      const size_t at = (i / 2 + 1) % (names.size() + 1);
      CAPTURE(metrics[i].first);
      check_near(metrics[i].second, round[i % 2 == 0 ? "mean" : "std"][at]);
    }
  }
}

TEST_CASE("a group with one reward for all, however it rounds, teaches nothing") {
  const RewardTable table{8, 2, std::vector<float>(16, 0.1F)};
  const std::vector<double> weights = {0.3, 0.7};
  for (const ScaleRewards scale : {ScaleRewards::kGroup, ScaleRewards::kBatch, ScaleRewards::kNone}) {
    const Advantages advantages = advantages_of(table, weights, 4, {.scale = scale});
    for (const float value : advantages.values) CHECK(value == 0);
    CHECK(advantages.frac_reward_zero_std == 1);
  }
}

TEST_CASE("what outputs say becomes a table, completion by completion") {
  std::vector<RewardOutput> outputs(2);
  outputs[0].rewards = {1.0, {}};
  outputs[1].rewards = {0.25, -3.0};
  const RewardTable table = table_of(outputs, 2);
  CHECK(table.at(0, 0) == 1);
  CHECK(table.at(0, 1) == 0.25);
  CHECK(std::isnan(table.at(1, 0)));
  CHECK(table.at(1, 1) == -3);
}
