#include "train/generation/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_set>
#include <vector>

#include "base/index.h"

namespace spillway::train {
namespace {

// The first of the largest. A block whose maximum is not larger is passed over: a vocabulary is long.
int32_t most_likely(std::span<const float> logits) {
  constexpr size_t kBlock = 64;
  size_t best = 0;
  for (size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const std::span<const float> block = logits.subspan(begin, std::min(kBlock, logits.size() - begin));
    float most[4] = {block[0], block[0], block[0], block[0]};  // chains that do not wait for each other
    size_t i = 0;
    for (; i + 4 <= block.size(); i += 4) {
      for (size_t chain = 0; chain < 4; ++chain) most[chain] = std::max(most[chain], block[i + chain]);
    }
    for (; i < block.size(); ++i) most[0] = std::max(most[0], block[i]);
    const float largest = std::max(std::max(most[0], most[1]), std::max(most[2], most[3]));
    if (largest > logits[best])
      best = begin + static_cast<size_t>(std::find(block.begin(), block.end(), largest) - block.begin());
  }
  return static_cast<int32_t>(best);
}

// Tokens whose weights are added up together, so that a draw looks at few of them one by one.
constexpr size_t kBlock = 512;

// Of a logit that is no number: none.
float weight_of(float logit, float top, float factor) {
  return std::isnan(logit) ? 0 : std::exp((logit - top) * factor);
}

int32_t draw_filtered(std::span<const float> logits, const Sampling& sampling, double uniform) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  // What is no number comes last: sorting wants an order.
  const auto score = [&](int32_t id) {
    const float logit = nth(logits, id);
    return std::isnan(logit) ? -std::numeric_limits<float>::infinity() : logit;
  };
  const auto is_likelier = [&](int32_t a, int32_t b) {
    const float left = score(a), right = score(b);
    return left != right ? left > right : a < b;
  };
  // A vocabulary takes longer to sort than a small model to run.
  if (const int64_t top = sampling.top_k; top > 0 && top < std::ssize(ids)) {
    std::nth_element(ids.begin(), ids.begin() + top, ids.end(), is_likelier);
    ids.resize(static_cast<size_t>(top));
  }
  std::sort(ids.begin(), ids.end(), is_likelier);
  std::vector<double> weights;
  const float top = nth(logits, ids[0]);
  for (const int32_t id : ids)
    weights.push_back(std::exp((static_cast<double>(nth(logits, id)) - top) / sampling.temperature));
  double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double kept = 0;
  size_t count = 0;
  while (count < weights.size() && kept < sampling.top_p * total) kept += weights[count++];
  while (count > 1 && weights[count - 1] < sampling.min_p) --count;  // that of the likeliest is 1
  count = std::max<size_t>(count, 1);
  total = std::accumulate(weights.begin(), weights.begin() + static_cast<std::ptrdiff_t>(count), 0.0);
  double left = uniform * total;
  for (size_t i = 0; i + 1 < count; ++i) {
    left -= weights[i];
    if (left < 0) return ids[i];
  }
  return ids[count - 1];
}

}  // namespace

void penalise_repetition(std::span<float> logits, std::span<const int32_t> seen, double penalty) {
  const std::unordered_set<int32_t> distinct(seen.begin(), seen.end());
  const auto factor = static_cast<float>(penalty);
  for (const int32_t id : distinct) {
    float& logit = nth(logits, id);
    logit = logit < 0 ? logit * factor : logit / factor;
  }
}

TokenDistribution::TokenDistribution(std::span<const float> logits, double temperature)
    : logits_(logits), top_(nth(logits, most_likely(logits))), factor_(static_cast<float>(1 / temperature)) {
  for (size_t begin = 0; begin < logits.size(); begin += kBlock) {
    double sum = 0;
    const size_t end = std::min(begin + kBlock, logits.size());
    for (size_t id = begin; id < end; ++id) sum += weight(id);
    blocks_.push_back(sum);
    total_ += sum;
  }
}

float TokenDistribution::weight(size_t id) const { return weight_of(logits_[id], top_, factor_); }

int32_t TokenDistribution::draw(double uniform) const {
  double left = uniform * total_;
  size_t block = 0;
  while (block + 1 < blocks_.size() && left >= blocks_[block]) left -= blocks_[block++];
  size_t id = block * kBlock, last = id;  // rounding may leave more than there is
  for (const size_t end = std::min(id + kBlock, logits_.size()); id < end; ++id) {
    const float share = weight(id);
    if (share == 0) continue;
    last = id;
    left -= share;
    if (left < 0) break;
  }
  return static_cast<int32_t>(last);
}

double TokenDistribution::log_probability(int32_t id) const {
  return (static_cast<double>(nth(logits_, id)) - top_) * factor_ - std::log(total_);
}

int32_t sample(std::span<const float> logits, const Sampling& sampling, double uniform) {
  if (sampling.temperature == 0) return most_likely(logits);
  if (sampling.draws_from_all()) return TokenDistribution(logits, sampling.temperature).draw(uniform);
  return draw_filtered(logits, sampling, uniform);
}

}  // namespace spillway::train
