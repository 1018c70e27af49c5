// What drawing a token reads of a vocabulary's logits, in vectors: a vocabulary is long beside what else a token costs.
#pragma once

#include <span>

namespace spillway::ops {

// The largest logit; no number (NaN) counts as none, and of nothing else it is -infinity. Any thread.
[[nodiscard]] float largest_logit(std::span<const float> logits);

// weights[i] = exp((logits[i] - top) * factor), nought of what is no number; returns their sum. An element's bits
// depend on that element alone. REQUIRES: as many weights as logits. Any thread.
double logit_weights(std::span<const float> logits, float top, float factor, std::span<float> weights);

}  // namespace spillway::ops
