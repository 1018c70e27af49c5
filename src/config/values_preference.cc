// The words of objectives, and those of preference training.
#include "config/values.h"

namespace spillway::config {
namespace {

constexpr Word<Rl> kRls[] = {{"none", Rl::kNone},
                             {"dpo", Rl::kDpo},
                             {"ipo", Rl::kIpo},
                             {"simpo", Rl::kSimpo},
                             {"cpo", Rl::kCpo},
                             {"orpo", Rl::kOrpo},
                             {"kto", Rl::kKto},
                             {"grpo", Rl::kGrpo},
                             {"gdpo", Rl::kGdpo},
                             {"rloo", Rl::kRloo},
                             {"online_dpo", Rl::kOnlineDpo},
                             {"ppo", Rl::kPpo},
                             {"xpo", {}, "XPO is"},
                             {"nash_md", {}, "Nash-MD is"},
                             {"ebft", {}, "energy-based fine-tuning is"}};

constexpr Word<FDivergence> kFDivergences[] = {{"reverse_kl", FDivergence::kReverseKl},
                                               {"forward_kl", FDivergence::kForwardKl},
                                               {"js_divergence", FDivergence::kJs},
                                               {"alpha_divergence", FDivergence::kAlpha}};

}  // namespace

std::span<const Word<Rl>> words_of(Rl) { return kRls; }
std::span<const Word<FDivergence>> words_of(FDivergence) { return kFDivergences; }

}  // namespace spillway::config
