#include "infer/generation/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/index.h"
#include "base/math.h"
#include "base/sizes.h"
#include "ops/draw_token/token_distribution.h"

namespace spillway::infer {
namespace {

// The probabilities of all tokens, with scratch memory.
class Distribution {
 public:
  Distribution(std::span<const float> logits, double temperature)
      : sums_(make_vector<double>(div_ceil(std::ssize(logits), ops::kTokenBlock))),
        all_(ops::OpenLogits(logits), inverse_temperature(temperature), sums_) {}
  Distribution(Distribution&&) = delete;

  [[nodiscard]] int32_t draw(double uniform) const { return all_.draw(uniform); }
  // In f32, as ops::draw_token returns it.
  [[nodiscard]] float log_probability(int32_t id) const { return static_cast<float>(all_.log_probability(id)); }

 private:
  std::vector<double> sums_;
  ops::TokenDistribution all_;
};

// Returns the ids of the `count` likeliest tokens, or of all if `count` is 0, likeliest first; among equal ones the
// lowest id first.
std::vector<int32_t> by_likelihood(std::span<const float> logits, int64_t count) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  // NaNs come last, since sorting needs a strict order.
  const auto score = [&](int32_t id) {
    const float logit = nth(logits, id);
    return std::isnan(logit) ? -std::numeric_limits<float>::infinity() : logit;
  };
  const auto is_likelier = [&](int32_t a, int32_t b) {
    const float left = score(a), right = score(b);
    return left != right ? left > right : a < b;
  };
  // Sorting a whole vocabulary takes longer than running a small model.
  if (count > 0 && count < std::ssize(ids)) {
    std::nth_element(ids.begin(), ids.begin() + count, ids.end(), is_likelier);
    resize(ids, count);
  }
  std::sort(ids.begin(), ids.end(), is_likelier);
  return ids;
}

int32_t draw_filtered(std::span<const float> logits, const Sampling& sampling, double uniform) {
  const std::vector<int32_t> ids = by_likelihood(logits, sampling.top_k);
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

float inverse_temperature(double temperature) {
  return temperature > 0 ? static_cast<float>(1 / temperature) : std::numeric_limits<float>::infinity();
}

int32_t sample(std::span<const float> logits, const Sampling& sampling, double uniform) {
  if (std::isinf(inverse_temperature(sampling.temperature))) return ops::OpenLogits(logits).likeliest();
  if (sampling.draws_from_all()) return Distribution(logits, sampling.temperature).draw(uniform);
  return draw_filtered(logits, sampling, uniform);
}

Choice choose_token(std::span<const float> logits, std::span<const float> scores, const Sampling& sampling,
                    std::optional<double> logprob_temperature, double uniform) {
  if (!logprob_temperature) return {sample(scores, sampling, uniform)};
  const Distribution plain(logits, *logprob_temperature);
  // The distribution to draw from is often the one whose log-probability is wanted: it is not computed twice.
  const bool is_drawn_from =
      scores.data() == logits.data() && sampling.draws_from_all() && sampling.temperature == *logprob_temperature;
  const int32_t id = is_drawn_from ? plain.draw(uniform) : sample(scores, sampling, uniform);
  return {id, plain.log_probability(id)};
}

float log_probability(std::span<const float> logits, double temperature, int32_t id) {
  return Distribution(logits, temperature).log_probability(id);
}

std::vector<TokenLogprob> likeliest_tokens(std::span<const float> logits, double temperature, int64_t count) {
  const Distribution all(logits, temperature);
  std::vector<TokenLogprob> tokens;
  for (const int32_t id : by_likelihood(logits, count)) tokens.push_back({id, all.log_probability(id)});
  return tokens;
}

}  // namespace spillway::infer
