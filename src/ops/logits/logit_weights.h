// Passes over a vocabulary's logits for drawing a token, in vectors: a vocabulary is long beside the other work of a
// token.
#pragma once

#include <span>

namespace spillway::ops {

// Returns the largest logit; ignores NaN, and returns -infinity if there is no other. Safe from any thread.
[[nodiscard]] float largest_logit(std::span<const float> logits);

// Sets weights[i] = exp((logits[i] - top) * factor), 0 for NaN; returns their sum. An element's bits depend on that
// element alone. REQUIRES: as many weights as logits. Safe from any thread.
double logit_weights(std::span<const float> logits, float top, float factor, std::span<float> weights);

}  // namespace spillway::ops
