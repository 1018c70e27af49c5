// The three products are cuBLASLt's and bound by arithmetic. Between them a row of logits is read twice, mostly from
// the second cache, and its gradient is written: 10 bytes a logit in bf16. Not yet measured.
#include "ops/linear_cross_entropy/cuda_layout.h"
#include "ops/linear_cross_entropy/layout.h"
#include "ops/logits/chunked_logits.cuh"
#include "ops/real.h"

namespace spillway::ops {
namespace {

using namespace linear_cross_entropy_op;

constexpr int kThreads = 512;
constexpr int kTotalThreads = 1024;

// Returns the mean of a row, computed by a block's threads.
template <int kWidth>
__device__ float mean_of(const float* row, int64_t vocabulary) {
  float mine = 0;
  cuda::for_each_vector<kWidth>(vocabulary, threadIdx.x, kThreads, [&](cuda::Span<kWidth> span) {
    const cuda::Floats<kWidth> v = cuda::load(row, span);
    for (int i = 0; i < span.count; ++i) mine += v[i];
  });
  return cuda::block_sum<kThreads>(mine) / static_cast<float>(vocabulary);
}

// Uses a block for each row of logits: losses[row] is the row's loss, correct[row] is 1 if no logit is larger than the
// label's, and, if `gradient` is not null, it is scale * (softmax - target). A row without a label gets zeros.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    cross_entropy_kernel(const float* logits, const int32_t* labels, const float* scale, int64_t vocabulary,
                         float* losses, int32_t* correct, float inverse_cap, float smoothing, SmoothedTarget target,
                         T* gradient) {
  constexpr int kWidth = cuda::kVector<T>;
  const int64_t row = int64_t{blockIdx.x} * vocabulary;
  const int32_t label = labels[blockIdx.x];
  if (label < 0) {
    if (threadIdx.x == 0) {
      losses[blockIdx.x] = 0;
      correct[blockIdx.x] = 0;
    }
    if (gradient == nullptr) return;
    cuda::for_each_vector<kWidth>(vocabulary, threadIdx.x, kThreads, [&](cuda::Span<kWidth> span) {
      cuda::store(cuda::Floats<kWidth>{}, gradient + row, span);
    });
    return;
  }
  cuda::require(label < vocabulary);
  const auto [maximum, log_sum] = log_sum_of<kThreads, kWidth>(logits + row, vocabulary);
  const float mean = smoothing > 0 ? mean_of<kWidth>(logits + row, vocabulary) : 0.0f;
  if (threadIdx.x == 0) {
    const float at_label = logits[row + label];
    losses[blockIdx.x] = log_sum - at_label + (smoothing > 0 ? smoothing * (at_label - mean) : 0.0f);
    correct[blockIdx.x] = logits[row + label] >= maximum ? 1 : 0;
  }
  if (gradient == nullptr) return;
  cuda::for_each_vector<kWidth>(vocabulary, threadIdx.x, kThreads, [&](cuda::Span<kWidth> span) {
    cuda::Floats<kWidth> g = cuda::load(logits + row, span);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float slope = cap_slope(g[i], inverse_cap);
      const float of_label = span.begin + i == label ? target.of_label : 0.0f;
      g[i] = (expf(g[i] - log_sum) + (of_label + target.of_all)) * *scale * slope;
    }
    cuda::store(g, gradient + row, span);
  });
}

__global__ void __launch_bounds__(kTotalThreads)
    totals_kernel(const float* losses, const int32_t* correct, int64_t tokens, const float* scale, float* loss,
                  int32_t* total_correct) {
  double sum = 0, count = 0;
  for (int64_t i = threadIdx.x; i < tokens; i += kTotalThreads) {
    sum += losses[i];
    count += correct[i];
  }
  sum = cuda::block_sum<kTotalThreads>(sum);
  count = cuda::block_sum<kTotalThreads>(count);
  if (threadIdx.x == 0) {
    *loss = static_cast<float>(sum * *scale);
    *total_correct = static_cast<int32_t>(count);
  }
}

template <typename T>
void run_cross_entropy(const KernelArgs& args) {
  const int gradients = gradient_count(args.outputs.size());
  const auto* scale = args.inputs[kScale].as<float>();
  CudaChunkedLogits<T> chunks(args, {.x = args.inputs[kX],
                                     .w = args.inputs[kW],
                                     .dx = gradients >= 1 ? &args.outputs[kDx] : nullptr,
                                     .dw = gradients >= 2 ? &args.outputs[kDw] : nullptr});
  const CudaLossWorkspace layout(chunks.shape());
  const double smoothing = real_or(args.attributes, kLabelSmoothing, 0);
  auto* losses = chunks.template at<float>(layout.losses);
  auto* correct = chunks.template at<int32_t>(layout.correct);
  chunks.run([&](const float* logits, T* gradient, int64_t begin, int64_t count) {
    cuda::launch(cross_entropy_kernel<T>, {count, kThreads}, args.stream, logits,
                 args.inputs[kLabels].as<int32_t>() + begin, scale, chunks.shape().vocabulary, losses + begin,
                 correct + begin, LogitCap(args.attributes).inverse(), static_cast<float>(smoothing),
                 SmoothedTarget(smoothing, chunks.shape().vocabulary), gradient);
  });
  cuda::launch(totals_kernel, {1, kTotalThreads}, args.stream, losses, correct, chunks.shape().tokens, scale,
               args.outputs[kLoss].as<float>(), args.outputs[kCorrect].as<int32_t>());
}

}  // namespace

void linear_cross_entropy_cuda(const KernelArgs& args) {
  with_real(args.inputs[kX].dtype, [&]<typename T>(T*) { run_cross_entropy<T>(args); });
}

}  // namespace spillway::ops
