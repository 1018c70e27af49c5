// The words of video transformers.
#include "config/values.h"

namespace spillway::config {
namespace {

using data::WeightingScheme;

constexpr Word<WeightingScheme> kSchemes[] = {
    {"uniform", WeightingScheme::kUniform},
    {"logit_normal", WeightingScheme::kLogitNormal},
    {"mode", WeightingScheme::kMode},
    {"none", WeightingScheme::kUniform},
    {"sigma_sqrt", {}, "weights of the loss by noise level"},
    {"shifted_logit_normal", {}, "a draw of noise levels by the length of the clip"},
    {"cosmap", {}, "weights of the loss by noise level"},
};
constexpr Word<VideoCheckpointing> kCheckpointingTypes[] = {
    {"none", VideoCheckpointing::kNone},
    {"full", VideoCheckpointing::kFull},
    {"block_skip", VideoCheckpointing::kFull},
    {"ops", {}, "keeping attention and every second product"},
};

constexpr Word<MixedPrecision> kMixedPrecisions[] = {{"no", MixedPrecision::kNo},
                                                     {"bf16", MixedPrecision::kBf16},
                                                     {"fp16", MixedPrecision::kF16},
                                                     {"fp8", {}, "8-bit products are"}};

}  // namespace

std::span<const Word<MixedPrecision>> words_of(MixedPrecision) { return kMixedPrecisions; }
std::span<const Word<WeightingScheme>> words_of(WeightingScheme) { return kSchemes; }
std::span<const Word<VideoCheckpointing>> words_of(VideoCheckpointing) { return kCheckpointingTypes; }

}  // namespace spillway::config
