// The four products are cuBLASLt's and bound by arithmetic. Between them a row of both models' logits is read three
// times, mostly from the second cache, and the model's gradient is written. Not yet measured.
#include "ops/linear_distillation/layout.h"
#include "ops/logits/chunked_logits.cuh"
#include "ops/real.h"

namespace spillway::ops {
namespace {

using namespace linear_distillation_op;

constexpr int kThreads = 512;
constexpr int kTotalThreads = 1024;

// The numbers of each token, f32 and i32 [T].
struct TokenLosses {
  float *divergence, *cross_entropy;
  int32_t* correct;
};

// Uses a block for each row of both models' logits: its losses, and, if `gradient` is not null, that of the model's
// logits. A row without a label gets zeros.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    distillation_kernel(const float* logits, const float* teacher, const int32_t* labels, const float* scale,
                        int64_t vocabulary, TokenLosses losses, DistillationFactors factors, float inverse_cap,
                        T* gradient) {
  constexpr int kWidth = cuda::kVector<T>;
  const int64_t row = int64_t{blockIdx.x} * vocabulary;
  const int32_t label = labels[blockIdx.x];
  if (label < 0) {
    if (threadIdx.x == 0) {
      losses.divergence[blockIdx.x] = 0;
      losses.cross_entropy[blockIdx.x] = 0;
      losses.correct[blockIdx.x] = 0;
    }
    if (gradient == nullptr) return;
    cuda::for_each_vector<kWidth>(vocabulary, threadIdx.x, kThreads, [&](cuda::Span<kWidth> span) {
      cuda::store(cuda::Floats<kWidth>{}, gradient + row, span);
    });
    return;
  }
  cuda::require(label < vocabulary);
  const float inverse = factors.inverse_temperature;
  const LogSum plain = log_sum_of<kThreads, kWidth>(logits + row, vocabulary);
  const float of_model =
      inverse == 1 ? plain.value : log_sum_of<kThreads, kWidth>(logits + row, vocabulary, inverse).value;
  const float of_teacher = log_sum_of<kThreads, kWidth>(teacher + row, vocabulary, inverse).value;
  float mine = 0;
  cuda::for_each_vector<kWidth>(vocabulary, threadIdx.x, kThreads, [&](cuda::Span<kWidth> span) {
    const cuda::Floats<kWidth> s = cuda::load(logits + row, span), t = cuda::load(teacher + row, span);
    for (int i = 0; i < span.count; ++i)
      mine += expf(t[i] * inverse - of_teacher) * ((t[i] - s[i]) * inverse + (of_model - of_teacher));
  });
  const float divergence = cuda::block_sum<kThreads>(mine);
  if (threadIdx.x == 0) {
    losses.divergence[blockIdx.x] = divergence;
    losses.cross_entropy[blockIdx.x] = plain.value - logits[row + label];
    losses.correct[blockIdx.x] = logits[row + label] >= plain.maximum ? 1 : 0;
  }
  if (gradient == nullptr) return;
  const float by_divergence = factors.divergence * inverse * *scale, by_entropy = factors.cross_entropy * *scale;
  cuda::for_each_vector<kWidth>(vocabulary, threadIdx.x, kThreads, [&](cuda::Span<kWidth> span) {
    cuda::Floats<kWidth> g = cuda::load(logits + row, span);
    const cuda::Floats<kWidth> t = cuda::load(teacher + row, span);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float slope = cap_slope(g[i], inverse_cap);
      float sum = by_divergence * (expf(g[i] * inverse - of_model) - expf(t[i] * inverse - of_teacher));
      if (by_entropy != 0) sum += by_entropy * (expf(g[i] - plain.value) - (span.begin + i == label ? 1.0f : 0.0f));
      g[i] = sum * slope;
    }
    cuda::store(g, gradient + row, span);
  });
}

__global__ void __launch_bounds__(kTotalThreads)
    distillation_totals_kernel(TokenLosses losses, int64_t tokens, const float* scale, DistillationFactors factors,
                               float* loss, float* divergence, float* cross_entropy, int32_t* correct) {
  double divergences = 0, entropies = 0, count = 0;
  for (int64_t i = threadIdx.x; i < tokens; i += kTotalThreads) {
    divergences += losses.divergence[i];
    entropies += losses.cross_entropy[i];
    count += losses.correct[i];
  }
  divergences = cuda::block_sum<kTotalThreads>(divergences);
  entropies = cuda::block_sum<kTotalThreads>(entropies);
  count = cuda::block_sum<kTotalThreads>(count);
  if (threadIdx.x == 0) {
    *loss = static_cast<float>((factors.divergence * divergences + factors.cross_entropy * entropies) * *scale);
    *divergence = static_cast<float>(divergences);
    *cross_entropy = static_cast<float>(entropies);
    *correct = static_cast<int32_t>(count);
  }
}

template <typename T>
void run_distillation(const KernelArgs& args) {
  const int gradients = static_cast<int>(args.outputs.size()) - kDx;
  const auto* scale = args.inputs[kScale].as<float>();
  const DistillationFactors factors(args.attributes);
  CudaChunkedLogits<T> chunks(args, {.x = args.inputs[kX],
                                     .w = args.inputs[kW],
                                     .dx = gradients >= 1 ? &args.outputs[kDx] : nullptr,
                                     .dw = gradients >= 2 ? &args.outputs[kDw] : nullptr});
  const LogitShape& shape = chunks.shape();
  const DistillationWorkspace<CudaLogitWorkspace> layout(
      shape, {shape.dtype, shape.tokens, args.inputs[kTeacherX].shape[1], shape.vocabulary});
  KernelArgs of_teacher = args;
  of_teacher.workspace += layout.teacher;
  CudaChunkedLogits<T> teacher(of_teacher, {.x = args.inputs[kTeacherX], .w = args.inputs[kTeacherW]});
  const LogitCap teacher_cap(args.attributes, "teacher_logit_cap");
  const TokenLosses losses{chunks.template at<float>(layout.divergences),
                           chunks.template at<float>(layout.cross_entropies),
                           chunks.template at<int32_t>(layout.correct)};
  chunks.run([&](const float* logits, T* gradient, int64_t begin, int64_t count) {
    const float* theirs = teacher.logits(begin, count, teacher_cap);
    cuda::launch(distillation_kernel<T>, {count, kThreads}, args.stream, logits, theirs,
                 args.inputs[kLabels].as<int32_t>() + begin, scale, shape.vocabulary,
                 TokenLosses{losses.divergence + begin, losses.cross_entropy + begin, losses.correct + begin}, factors,
                 LogitCap(args.attributes).inverse(), gradient);
  });
  cuda::launch(distillation_totals_kernel, {1, kTotalThreads}, args.stream, losses, shape.tokens, scale, factors,
               args.outputs[kLoss].as<float>(), args.outputs[kDivergence].as<float>(),
               args.outputs[kCrossEntropy].as<float>(), args.outputs[kCorrect].as<int32_t>());
}

}  // namespace

void linear_distillation_cuda(const KernelArgs& args) {
  with_real(args.inputs[kX].dtype, [&]<typename T>(T*) { run_distillation<T>(args); });
}

}  // namespace spillway::ops
