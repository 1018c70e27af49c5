// Draws a token from a row of logits, some of which may be barred: as if these were -infinity.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/index.h"

namespace spillway::ops {

// The number of tokens whose weights are added up together, so that a draw looks at few of them one by one.
inline constexpr int64_t kTokenBlock = 512;

// The logits of a row without the barred ones. Borrows its arguments. Safe from any thread.
class OpenLogits {
 public:
  // Ids below 0 bar nothing.
  explicit OpenLogits(std::span<const float> logits, std::span<const int32_t> barred = {})
      : logits_(logits), barred_(barred) {}

  using Block = std::array<float, static_cast<size_t>(kTokenBlock)>;
  [[nodiscard]] int64_t blocks() const;
  // Returns the logits of a block, in `copy` if some are barred.
  [[nodiscard]] std::span<const float> block(int64_t index, Block& copy) const;

  // Returns the largest; -infinity if none is a number.
  [[nodiscard]] float top() const;
  // Returns the first of the largest; 0 if none is a number.
  [[nodiscard]] int32_t likeliest() const;

  [[nodiscard]] float logit(int32_t id) const { return nth(logits_, id); }
  [[nodiscard]] std::span<const int32_t> barred() const { return barred_; }

 private:
  std::span<const float> logits_;
  std::span<const int32_t> barred_;
};

// The distribution softmax(logits * factor) over all tokens that are not barred. Safe from any thread.
class TokenDistribution {
 public:
  // Borrows both; `sums` is scratch for blocks. REQUIRES: one for each block, and factor is finite and above 0.
  TokenDistribution(const OpenLogits& logits, float factor, std::span<double> sums);

  // Returns the token in whose share of [0, 1) `uniform` lies, in the order of ids; 0 if none has a share.
  [[nodiscard]] int32_t draw(double uniform) const;
  // Returns the log-probability in the distribution over all tokens, barred ones included.
  [[nodiscard]] double log_probability(int32_t id) const;

 private:
  // Computes the weights of a block; returns their sum.
  double weights_of(int64_t block, OpenLogits::Block& weights) const;

  OpenLogits logits_;
  float top_, factor_;
  std::span<double> sums_;
  double total_ = 0;
};

}  // namespace spillway::ops
