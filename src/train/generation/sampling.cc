#include "train/generation/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_set>
#include <vector>

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

}  // namespace

void penalise_repetition(std::span<float> logits, std::span<const int32_t> seen, double penalty) {
  const std::unordered_set<int32_t> distinct(seen.begin(), seen.end());
  const auto factor = static_cast<float>(penalty);
  for (const int32_t id : distinct) {
    float& logit = logits[static_cast<size_t>(id)];
    logit = logit < 0 ? logit * factor : logit / factor;
  }
}

int32_t sample(std::span<const float> logits, const Sampling& sampling, double uniform) {
  if (sampling.temperature == 0) return most_likely(logits);
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  // What is no number comes last: sorting wants an order.
  const auto score = [&](int32_t id) {
    const float logit = logits[static_cast<size_t>(id)];
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
  const float top = logits[static_cast<size_t>(ids[0])];
  for (const int32_t id : ids)
    weights.push_back(std::exp((static_cast<double>(logits[static_cast<size_t>(id)]) - top) / sampling.temperature));
  double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double kept = 0;
  size_t count = 0;
  while (count < weights.size() && kept < sampling.top_p * total) kept += weights[count++];
  count = std::max<size_t>(count, 1);
  total = std::accumulate(weights.begin(), weights.begin() + static_cast<std::ptrdiff_t>(count), 0.0);
  double left = uniform * total;
  for (size_t i = 0; i + 1 < count; ++i) {
    left -= weights[i];
    if (left < 0) return ids[i];
  }
  return ids[count - 1];
}

double log_probability(std::span<const float> logits, int32_t id) {
  const float top = *std::max_element(logits.begin(), logits.end());
  double total = 0;
  for (const float logit : logits) total += std::exp(static_cast<double>(logit - top));
  return static_cast<double>(logits[static_cast<size_t>(id)] - top) - std::log(total);
}

}  // namespace spillway::train
