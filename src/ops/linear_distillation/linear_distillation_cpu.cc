#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/linear_distillation/linear_distillation_cpu.cc"
#include <hwy/foreach_target.h>

#include "ops/linear_distillation/layout.h"
#include "ops/logits/chunked_logits-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

// A row's distributions as logarithms of their sums of exponentials: of the model's logits as they are, and of both
// models' logits divided by the temperature.
struct DistillationSums {
  float plain, model, teacher;
};

float log_sum_at(const float* logits, int64_t count, float inverse_temperature) {
  const float top = largest_of(logits, count);
  const double total = sum_of(
      logits, count,
      [&](Vector v) HWY_ATTR { return exp_of(hn::Mul(hn::Sub(v, constant(top)), constant(inverse_temperature))); },
      [&](float v) { return std::exp((v - top) * inverse_temperature); });
  return top * inverse_temperature + static_cast<float>(std::log(total));
}

// Returns the KL divergence of the model from the teacher.
double divergence_of(const float* model, const float* teacher, int64_t count, const DistillationSums& sums,
                     float inverse) {
  const float shift = sums.model - sums.teacher;
  int64_t next = 0;  // the sum goes over the teacher's row in order
  return sum_of(
      teacher, count,
      [&](Vector theirs) HWY_ATTR {
        const Vector difference = hn::Sub(theirs, load(model + next));
        next += lanes();
        const Vector p = exp_of(hn::MulSub(theirs, constant(inverse), constant(sums.teacher)));
        return hn::Mul(p, hn::MulAdd(difference, constant(inverse), constant(shift)));
      },
      [&](float theirs) {
        const float difference = theirs - model[next++];
        return std::exp(theirs * inverse - sums.teacher) * (difference * inverse + shift);
      });
}

// Replaces the model's logits by the gradient of the loss, rounded to T and stored from the row's start.
template <typename T>
void distillation_gradient(float* model, const float* teacher, int64_t vocabulary, int32_t label,
                           const DistillationSums& sums, const DistillationFactors& factors, float scale,
                           const LogitCap& cap) {
  const float inverse = factors.inverse_temperature, of_divergence = factors.divergence * inverse * scale,
              of_entropy = factors.cross_entropy * scale;
  const float at_label = (of_divergence * (std::exp(model[label] * inverse - sums.model) -
                                           std::exp(teacher[label] * inverse - sums.teacher)) +
                          of_entropy * (std::exp(model[label] - sums.plain) - 1)) *
                         cap_slope(model[label], cap.inverse());
  const auto gradient_of = [&](Vector logit, Vector theirs) HWY_ATTR {
    const Vector p = exp_of(hn::MulSub(logit, constant(inverse), constant(sums.model)));
    const Vector q = exp_of(hn::MulSub(theirs, constant(inverse), constant(sums.teacher)));
    Vector g = hn::Mul(hn::Sub(p, q), constant(of_divergence));
    if (of_entropy != 0) g = hn::MulAdd(exp_of(hn::Sub(logit, constant(sums.plain))), constant(of_entropy), g);
    return through_cap(g, logit, cap.inverse());
  };
  T* gradient = reinterpret_cast<T*>(model);
  int64_t i = 0;
  for (; i + lanes() <= vocabulary; i += lanes()) store(gradient_of(load(model + i), load(teacher + i)), gradient + i);
  if (i < vocabulary) {
    const int64_t left = vocabulary - i;
    store_some(gradient_of(load_some(model + i, left), load_some(teacher + i, left)), gradient + i, left);
  }
  gradient[label] = from_float<T>(at_label);
}

template <typename T>
void run_distillation(const KernelArgs& args) {
  using namespace linear_distillation_op;
  const int gradients = static_cast<int>(args.outputs.size()) - kDx;
  const TensorView& labels = args.inputs[kLabels];
  const float scale = *args.inputs[kScale].as<float>();
  const DistillationFactors factors(args.attributes);
  const LogitCap cap(args.attributes), teacher_cap(args.attributes, "teacher_logit_cap");
  ChunkedLogits<T> chunks(args, {.x = args.inputs[kX],
                                 .w = args.inputs[kW],
                                 .labels = labels,
                                 .dx = gradients >= 1 ? &args.outputs[kDx] : nullptr,
                                 .dw = gradients >= 2 ? &args.outputs[kDw] : nullptr});
  const int64_t vocabulary = chunks.shape().vocabulary, width = args.inputs[kTeacherX].shape[1];
  const DistillationWorkspace<LogitWorkspace> layout(
      chunks.shape(), {chunks.shape().dtype, chunks.shape().tokens, width, vocabulary}, args.threads->threads());
  KernelArgs of_teacher = args;
  of_teacher.workspace += layout.teacher;
  ChunkedLogits<T> teacher(of_teacher, {.x = args.inputs[kTeacherX], .w = args.inputs[kTeacherW], .labels = labels});
  auto* divergences = chunks.template at<float>(layout.divergences);
  auto* cross_entropies = chunks.template at<float>(layout.cross_entropies);
  auto* correct = chunks.template at<int32_t>(layout.correct);
  float* theirs = nullptr;
  int64_t first = 0;
  const auto row = [&](float* logits, int64_t target, int64_t token) {
    float* teacher_row = theirs + (target - first) * vocabulary;
    cap_row(logits, vocabulary, cap);
    cap_row(teacher_row, vocabulary, teacher_cap);
    const int32_t label = labels.as<int32_t>()[token];
    const float inverse = factors.inverse_temperature;
    const LogSum plain = log_sum_of(logits, vocabulary);
    const DistillationSums sums{plain.value(), inverse == 1 ? plain.value() : log_sum_at(logits, vocabulary, inverse),
                                log_sum_at(teacher_row, vocabulary, inverse)};
    divergences[target] = static_cast<float>(divergence_of(logits, teacher_row, vocabulary, sums, inverse));
    cross_entropies[target] = sums.plain - logits[label];
    correct[target] = logits[label] >= plain.largest ? 1 : 0;
    if (gradients > 0) distillation_gradient<T>(logits, teacher_row, vocabulary, label, sums, factors, scale, cap);
  };
  chunks.run(row, [&](int64_t begin, int64_t count) {
    theirs = teacher.logits(begin, count);
    first = begin;
  });
  double divergence = 0, cross_entropy = 0;
  int32_t right = 0;
  for (int64_t i = 0; i < chunks.targets(); ++i) {
    divergence += divergences[i];
    cross_entropy += cross_entropies[i];
    right += correct[i];
  }
  *args.outputs[kLoss].as<float>() =
      static_cast<float>((factors.divergence * divergence + factors.cross_entropy * cross_entropy) * scale);
  *args.outputs[kDivergence].as<float>() = static_cast<float>(divergence);
  *args.outputs[kCrossEntropy].as<float>() = static_cast<float>(cross_entropy);
  *args.outputs[kCorrect].as<int32_t>() = right;
}

void linear_distillation(const KernelArgs& args) {
  with_real(args.inputs[linear_distillation_op::kX].dtype, [&]<typename T>(T*) { run_distillation<T>(args); });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(linear_distillation);
void linear_distillation_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(linear_distillation)(args); }
}  // namespace spillway::ops
#endif
