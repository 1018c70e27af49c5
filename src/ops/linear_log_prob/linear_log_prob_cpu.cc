#include <algorithm>
#include <array>
#include <functional>
#include <span>

#include "base/sizes.h"
#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/linear_log_prob/linear_log_prob_cpu.cc"
#include <hwy/foreach_target.h>

#include "ops/linear_log_prob/linear_log_prob.h"
#include "ops/linear_log_prob/operands.h"
#include "ops/logits/chunked_logits-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

void divide_row(float* logits, int64_t count, float inverse) {
  if (inverse == 1) return;
  map(
      0, count, [inverse](Vector v) HWY_ATTR { return hn::Mul(v, constant(inverse)); }, logits, logits);
}

float inverse_temperature(const KernelArgs& args) {
  return static_cast<float>(1 / args.attributes.real("temperature"));
}

// Returns the entropy of the softmax over the `top` largest of a row's logits.
float top_entropy_of(const float* logits, int64_t vocabulary, int64_t top) {
  std::array<float, kMaxTopLogits> heap;  // the smallest is in front
  float* const begin = heap.data();
  float* const end = begin + std::min(top, vocabulary);
  std::copy(logits, logits + (end - begin), begin);
  std::make_heap(begin, end, std::greater<>());
  const auto offer = [&](int64_t at, int64_t count) {
    for (const float logit : std::span(logits + at, static_cast<size_t>(count))) {
      if (!(logit > *begin)) continue;
      std::pop_heap(begin, end, std::greater<>());
      end[-1] = logit;
      std::push_heap(begin, end, std::greater<>());
    }
  };
  int64_t at = end - begin;
  for (; at + lanes() <= vocabulary; at += lanes())
    if (!hn::AllFalse(Floats(), hn::Gt(load(logits + at), constant(*begin)))) offer(at, lanes());
  offer(at, vocabulary - at);
  const double largest = *std::max_element(begin, end);
  double total = 0, weighted = 0;
  for (const float* logit = begin; logit != end; ++logit) {
    const double below = *logit - largest, power = std::exp(below);
    total += power;
    weighted += power * below;
  }
  return static_cast<float>(std::max(0.0, std::log(total) - weighted / total));
}

using RowNumbers = std::array<float, linear_log_prob_op::kLogProbOutputs>;  // by Output

// Computes the entropy as log(total) - mean of (logit - largest), which is exact if one token has all of the
// probability.
RowNumbers numbers_of_row(float* logits, int64_t vocabulary, int32_t label, const LogitCap& cap, float inverse,
                          int64_t top) {
  using namespace linear_log_prob_op;
  cap_row(logits, vocabulary, cap);
  divide_row(logits, vocabulary, inverse);
  const LogSum sum = log_sum_of(logits, vocabulary);
  const Vector largest = constant(sum.largest);
  const auto [weighted, squares, all] = sums_of<3>(
      logits, vocabulary,
      [&](Vector v, Vector* sums) HWY_ATTR {
        const Vector below = hn::Sub(v, largest), power = exp_of(below);
        sums[0] = hn::Add(sums[0], hn::Mul(power, below));
        sums[1] = hn::Add(sums[1], hn::Mul(power, power));
        sums[2] = hn::Add(sums[2], v);
      },
      [&](float v, std::array<double, 3>& totals) {
        const float below = v - sum.largest, power = std::exp(below);
        totals[0] += power * below;
        totals[1] += power * power;
        totals[2] += v;
      });
  const float log_sum = sum.value();
  const double log_total = std::log(sum.total);
  RowNumbers result;
  result[kLogProbOut] = logits[label] - log_sum;
  result[kEntropyOut] = static_cast<float>(log_total - weighted / sum.total);
  result[kLogSumOut] = log_sum;
  result[kMeanLogitOut] = static_cast<float>(all / static_cast<double>(vocabulary));
  result[kIsLikeliestOut] = logits[label] >= sum.largest ? 1.0f : 0.0f;
  result[kLogSquareSumOut] = static_cast<float>(std::log(squares) - 2 * log_total);
  if (top > 0) result[kTopEntropyOut] = top_entropy_of(logits, vocabulary, top);
  return result;
}

void linear_log_prob(const KernelArgs& args) {
  using namespace linear_log_prob_op;
  const TensorView &x = args.inputs[kX], &w = args.inputs[kW], &labels = args.inputs[kLabels];
  const float inverse = inverse_temperature(args);
  const LogitCap cap(args.attributes);
  const int64_t top = args.attributes.integer("top");
  for (const TensorView& output : args.outputs) fill_memory(output.data, 0, output.bytes());
  with_real(x.dtype, [&]<typename T>(T*) {
    ChunkedLogits<T>(args, {.x = x, .w = w, .labels = labels}).run([&](float* logits, int64_t, int64_t token) {
      const RowNumbers row = numbers_of_row(logits, w.shape[0], labels.as<int32_t>()[token], cap, inverse, top);
      for (size_t i = 0; i < args.outputs.size(); ++i) args.outputs[i].as<float>()[token] = row[i];
    });
  });
}

// The terms of the gradient of a row of logits: with p = exp(logit - log_sum),
//   d logit[v] = log_prob * (1 at the label) - p (log_prob + entropy (log p + entropy of the row)).
struct RowCotangents {
  float log_prob = 0, entropy = 0;  // cotangents
  float row_entropy = 0, log_sum = 0;
};

// Overwrites the logits; the narrower gradient never overtakes the logits that are still to be read.
template <typename T>
void gradient_of_row(float* logits, int64_t vocabulary, int32_t label, const RowCotangents& c, const LogitCap& cap,
                     float inverse) {
  cap_row(logits, vocabulary, cap);
  const float inverse_cap = cap.inverse() / inverse;  // of the numbers divided by the temperature, too
  divide_row(logits, vocabulary, inverse);
  const Vector log_sum = constant(c.log_sum), of_entropy = constant(c.entropy * inverse);
  const Vector of_all = constant((c.log_prob + c.entropy * c.row_entropy) * inverse);
  const auto gradient_of = [&](Vector logit) HWY_ATTR {
    const Vector log_p = hn::Sub(logit, log_sum);
    const Vector gradient = hn::Neg(hn::Mul(exp_of(log_p), hn::MulAdd(of_entropy, log_p, of_all)));
    return through_cap(gradient, logit, inverse_cap);
  };
  const float log_p = logits[label] - c.log_sum;
  const float of_label = (c.log_prob - std::exp(log_p) * (c.log_prob + c.entropy * (log_p + c.row_entropy))) * inverse;
  const float at_label = of_label * cap_slope(logits[label], inverse_cap);
  T* gradient = reinterpret_cast<T*>(logits);
  int64_t i = 0;
  for (; i + lanes() <= vocabulary; i += lanes()) store(gradient_of(load(logits + i)), gradient + i);
  if (i < vocabulary) store_some(gradient_of(load_some(logits + i, vocabulary - i)), gradient + i, vocabulary - i);
  gradient[label] = from_float<T>(at_label);
}

void linear_log_prob_grad(const KernelArgs& args) {
  using namespace linear_log_prob_op;
  const TensorView &x = args.inputs[kX], &w = args.inputs[kW], &labels = args.inputs[kLabels];
  const float inverse = inverse_temperature(args);
  const LogitCap cap(args.attributes);
  const bool wants_x = args.attributes.integer("x_gradient") != 0, wants_w = args.attributes.integer("w_gradient") != 0;
  const auto number = [&](Input input, int64_t token) {
    return args.inputs[input].data ? args.inputs[input].as<float>()[token] : 0.0f;
  };
  with_real(x.dtype, [&]<typename T>(T*) {
    ChunkedLogits<T> chunks(args, {.x = x,
                                   .w = w,
                                   .labels = labels,
                                   .dx = wants_x ? &args.outputs[0] : nullptr,
                                   .dw = wants_w ? &args.outputs[wants_x ? 1 : 0] : nullptr});
    chunks.run([&](float* logits, int64_t, int64_t token) {
      gradient_of_row<T>(logits, w.shape[0], labels.as<int32_t>()[token],
                         {.log_prob = number(kLogProbCotangent, token),
                          .entropy = number(kEntropyCotangent, token),
                          .row_entropy = number(kEntropy, token),
                          .log_sum = number(kLogSum, token)},
                         cap, inverse);
    });
  });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(linear_log_prob);
HWY_EXPORT(linear_log_prob_grad);
void linear_log_prob_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(linear_log_prob)(args); }
void linear_log_prob_grad_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(linear_log_prob_grad)(args); }
}  // namespace spillway::ops
#endif
