// The rule of attention's scores, for the kernels of both devices: the numbers of the map from products to scores
// (scores-inl.h has its formulas), the keys that a query sees, and sinks.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "ops/optimizers/either_side.h"
#include "tensor/dtype.h"

namespace spillway::ops {

// Maps a product of query and key to the score before the softmax: scale * x, or, with a cap above 0,
// cap * tanh(scale * x / cap).
struct ScoreMap {
  float scale = 1, cap = 0;
};

// Return the first key that a causal query at `own` sees, of a sequence that begins at `begin`, and the end of the
// queries that see a causal key at `own`, of a sequence that ends at `end`. A window of 0 is none.
template <typename Index>
[[nodiscard]] constexpr Index first_key_seen(Index own, Index begin, Index window) {
  const Index first = own - window + 1;
  return window > 0 && first > begin ? first : begin;
}
template <typename Index>
[[nodiscard]] constexpr Index end_of_seeing(Index own, Index end, Index window) {
  return window > 0 && own + window < end ? own + window : end;
}

// The running maximum and sum of a row's exp(score - maximum); of no scores by default.
struct SoftmaxState {
  float maximum = -std::numeric_limits<float>::infinity(), sum = 0;
};

// A learned logit for each query head, which joins the softmax's denominator and takes no value (gpt-oss). May be
// absent: then every row starts from no scores.
struct Sinks {
  const void* data = nullptr;  // [H], f32 or bf16
  DType dtype = DType::kF32;

  [[nodiscard]] constexpr float at(int64_t head) const {
    return dtype == DType::kF32 ? static_cast<const float*>(data)[head]
                                : to_float(static_cast<const bf16*>(data)[head]);
  }
  // Returns the state of a row's softmax before its first key.
  [[nodiscard]] constexpr SoftmaxState start(int64_t head) const {
    return data == nullptr ? SoftmaxState() : SoftmaxState{at(head), 1};
  }
  // Returns the gradient of a head's sink from one row: its weight times the gradient of its score, where that of the
  // weight is 0. `lse` and `delta` are the row's, as for its other scores.
  [[nodiscard]] SPILLWAY_EITHER_SIDE float gradient(int64_t head, float lse, float delta) const {
    return -expf(at(head) - lse) * delta;
  }
};

}  // namespace spillway::ops
