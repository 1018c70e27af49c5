// The words of online reinforcement learning.
#include "config/values.h"

namespace spillway::config {
namespace {

constexpr Word<RatioLevel> kRatioLevels[] = {{"token", RatioLevel::kToken}, {"sequence", RatioLevel::kSequence}};
constexpr Word<RewardScale> kRewardScales[] = {{"group", RewardScale::kGroup},
                                               {"batch", RewardScale::kBatch},
                                               {"none", RewardScale::kNone},
                                               {"true", RewardScale::kGroup},
                                               {"false", RewardScale::kNone}};
constexpr Word<RewardAggregation> kAggregations[] = {{"sum_then_normalize", RewardAggregation::kSumThenNormalize},
                                                     {"normalize_then_sum", RewardAggregation::kNormalizeThenSum}};
constexpr Word<KlEstimator> kKlEstimators[] = {{"k1", KlEstimator::kK1}, {"k3", KlEstimator::kK3}};

}  // namespace

std::span<const Word<RatioLevel>> words_of(RatioLevel) { return kRatioLevels; }
std::span<const Word<RewardScale>> words_of(RewardScale) { return kRewardScales; }
std::span<const Word<RewardAggregation>> words_of(RewardAggregation) { return kAggregations; }
std::span<const Word<KlEstimator>> words_of(KlEstimator) { return kKlEstimators; }

}  // namespace spillway::config
