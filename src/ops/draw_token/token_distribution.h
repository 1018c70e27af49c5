// Drawing a token from a row of logits, of which some may be barred: as if their logits were -infinity.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/index.h"

namespace spillway::ops {

// Tokens whose weights are added up together, so that a draw looks at few of them one by one.
inline constexpr int64_t kTokenBlock = 512;

// Any thread. Borrows all that it gets.
class OpenLogits {
 public:
  // Ids below 0 bar nothing.
  explicit OpenLogits(std::span<const float> logits, std::span<const int32_t> barred = {})
      : logits_(logits), barred_(barred) {}

  using Block = std::array<float, static_cast<size_t>(kTokenBlock)>;
  [[nodiscard]] int64_t blocks() const;
  // Of a block, in `copy` where some are barred.
  [[nodiscard]] std::span<const float> block(int64_t index, Block& copy) const;

  // The largest; -infinity where none is a number.
  [[nodiscard]] float top() const;
  // The first of the largest; 0 where none is a number.
  [[nodiscard]] int32_t likeliest() const;

  [[nodiscard]] float logit(int32_t id) const { return nth(logits_, id); }
  [[nodiscard]] std::span<const int32_t> barred() const { return barred_; }

 private:
  std::span<const float> logits_;
  std::span<const int32_t> barred_;
};

// softmax(logits * factor) over all tokens that are not barred. Any thread.
class TokenDistribution {
 public:
  // Borrows both; `sums` is scratch, of blocks. REQUIRES: one for each block, and factor is finite and above 0.
  TokenDistribution(const OpenLogits& logits, float factor, std::span<double> sums);

  // The token in whose share of [0, 1) `uniform` lies, in the order of ids; 0 where none has a share.
  [[nodiscard]] int32_t draw(double uniform) const;
  // In the distribution over all tokens, those that are barred included.
  [[nodiscard]] double log_probability(int32_t id) const;

 private:
  // Of a block; returns their sum.
  double weights_of(int64_t block, OpenLogits::Block& weights) const;

  OpenLogits logits_;
  float top_, factor_;
  std::span<double> sums_;
  double total_ = 0;
};

}  // namespace spillway::ops
