#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/linear_cross_entropy/linear_cross_entropy_cpu.cc"
#include <hwy/foreach_target.h>

#include "ops/linear_cross_entropy/layout.h"
#include "ops/logits/chunked_logits-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

struct RowOutcome {
  float loss;
  int32_t is_correct;  // whether no other logit is larger
};

HWY_INLINE double mean_of(const float* logits, int64_t count) {
  const double sum = sum_of(
      logits, count, [](Vector v) HWY_ATTR { return v; }, [](float v) { return v; });
  return sum / static_cast<double>(count);
}

// Turns a row of logits, before any cap, into scale * (softmax - target) through the cap, rounded to T and
// stored from the row's start. The narrower gradient never overtakes the logits that are still to be read.
template <typename T>
RowOutcome cross_entropy_row(float* logits, int64_t vocabulary, int32_t label, float scale, const LogitCap& cap,
                             double smoothing, bool wants_gradient) {
  cap_row(logits, vocabulary, cap);
  const LogSum sum = log_sum_of(logits, vocabulary);
  const float log_sum = sum.value();
  RowOutcome outcome{log_sum - logits[label], logits[label] >= sum.largest ? 1 : 0};
  if (smoothing > 0)
    outcome.loss += static_cast<float>(smoothing * (double{logits[label]} - mean_of(logits, vocabulary)));
  if (!wants_gradient) return outcome;

  const float inverse = cap.inverse();
  const SmoothedTarget target(smoothing, vocabulary);
  const float at_label =
      (std::exp(logits[label] - log_sum) + target.of_label + target.of_all) * scale * cap_slope(logits[label], inverse);
  const auto gradient_of = [&](Vector logit) HWY_ATTR {
    const Vector e = hn::Add(exp_of(hn::Sub(logit, constant(log_sum))), constant(target.of_all));
    return through_cap(hn::Mul(e, constant(scale)), logit, inverse);
  };
  T* gradient = reinterpret_cast<T*>(logits);
  int64_t i = 0;
  for (; i + lanes() <= vocabulary; i += lanes()) store(gradient_of(load(logits + i)), gradient + i);
  if (i < vocabulary) store_some(gradient_of(load_some(logits + i, vocabulary - i)), gradient + i, vocabulary - i);
  gradient[label] = from_float<T>(at_label);
  return outcome;
}

template <typename T>
void run_cross_entropy(const KernelArgs& args) {
  using namespace linear_cross_entropy_op;
  const int gradients = gradient_count(args.outputs.size());
  const TensorView &x = args.inputs[kX], &w = args.inputs[kW], &labels = args.inputs[kLabels];
  const float scale = *args.inputs[kScale].as<float>();
  const LogitCap cap(args.attributes);
  const double smoothing = real_or(args.attributes, kLabelSmoothing, 0);
  ChunkedLogits<T> chunks(args, {.x = x,
                                 .w = w,
                                 .labels = labels,
                                 .dx = gradients >= 1 ? &args.outputs[kDx] : nullptr,
                                 .dw = gradients >= 2 ? &args.outputs[kDw] : nullptr});
  const LossWorkspace layout(chunks.shape(), args.threads->threads());
  auto* losses = chunks.template at<float>(layout.losses);
  auto* correct = chunks.template at<int32_t>(layout.correct);
  chunks.run([&](float* logits, int64_t target, int64_t token) {
    const RowOutcome outcome =
        cross_entropy_row<T>(logits, w.shape[0], labels.as<int32_t>()[token], scale, cap, smoothing, gradients > 0);
    losses[target] = outcome.loss;
    correct[target] = outcome.is_correct;
  });
  double sum = 0;
  int32_t right = 0;
  for (int64_t i = 0; i < chunks.targets(); ++i) {
    sum += losses[i];
    right += correct[i];
  }
  *args.outputs[kLoss].as<float>() = static_cast<float>(sum * scale);
  *args.outputs[kCorrect].as<int32_t>() = right;
}

void linear_cross_entropy(const KernelArgs& args) {
  with_real(args.inputs[linear_cross_entropy_op::kX].dtype, [&]<typename T>(T*) { run_cross_entropy<T>(args); });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(linear_cross_entropy);
void linear_cross_entropy_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(linear_cross_entropy)(args); }
}  // namespace spillway::ops
#endif
