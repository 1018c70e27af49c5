// The three products are cuBLASLt's and bound by arithmetic. Between them a row of logits is read twice, mostly from
// the second cache, and its gradient is written: 10 bytes a logit in bf16. Not yet measured.
//
// Which tokens are targets is known on the GPU only, so rows without a label go through the products, too; their
// gradient is zero.
#include <limits>

#include "backend/cuda/launch.cuh"
#include "backend/cuda/product.h"
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/vector.cuh"
#include "backend/kernel.h"
#include "ops/linear_cross_entropy/chunks.h"
#include "ops/linear_cross_entropy/cuda_chunks.h"
#include "ops/real.h"

namespace spillway::ops {
namespace {

constexpr int kThreads = 512;
constexpr int kTotalThreads = 1024;

// A running maximum, and the sum of exp(x - maximum) of what it has seen.
struct Exponentials {
  float maximum = -std::numeric_limits<float>::infinity(), sum = 0;

  template <int N>
  __device__ void add(const cuda::Floats<N>& x, int count) {
    float largest = maximum;
#pragma unroll
    for (int i = 0; i < N; ++i) largest = i < count ? fmaxf(largest, x[i]) : largest;
    sum *= expf(maximum - largest);
    maximum = largest;
#pragma unroll
    for (int i = 0; i < N; ++i) sum += i < count ? expf(x[i] - maximum) : 0.0f;
  }
};

// A block for each row of logits: losses[row] = -log softmax[label], correct[row] whether no logit is larger, and,
// where `gradient` is not null, scale * (softmax - one_hot(label)). A row without a label gets zeros.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    cross_entropy_kernel(const float* logits, const int32_t* labels, const float* scale, int64_t vocabulary,
                         float* losses, int32_t* correct, T* gradient) {
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
  Exponentials mine;
  cuda::for_each_vector<kWidth>(vocabulary, threadIdx.x, kThreads,
                                [&](cuda::Span<kWidth> span) { mine.add(cuda::load(logits + row, span), span.count); });
  const float maximum =
      cuda::block_reduce<kThreads>(mine.maximum, -std::numeric_limits<float>::infinity(), cuda::Max());
  // Threads beyond a short row have seen nothing.
  const float sum = cuda::block_sum<kThreads>(mine.sum > 0 ? mine.sum * expf(mine.maximum - maximum) : 0.0f);
  const float log_sum = maximum + logf(sum);
  if (threadIdx.x == 0) {
    losses[blockIdx.x] = log_sum - logits[row + label];
    correct[blockIdx.x] = logits[row + label] >= maximum ? 1 : 0;
  }
  if (gradient == nullptr) return;
  cuda::for_each_vector<kWidth>(vocabulary, threadIdx.x, kThreads, [&](cuda::Span<kWidth> span) {
    cuda::Floats<kWidth> g = cuda::load(logits + row, span);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      g[i] = (expf(g[i] - log_sum) - (span.begin + i == label ? 1.0f : 0.0f)) * *scale;
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
class LossKernel {
 public:
  explicit LossKernel(const KernelArgs& args)
      : args_(args),
        x_(args.inputs[0]),
        w_(args.inputs[1]),
        tokens_(x_.shape[0]),
        width_(x_.shape[1]),
        vocabulary_(w_.shape[0]),
        gradients_(gradient_count(args.outputs.size())),
        layout_(x_.dtype, tokens_, vocabulary_, gradients_ > 0),
        logits_(at<float>(layout_.logits)),
        gradient_(gradients_ > 0 ? at<T>(layout_.gradient) : nullptr) {}

  void run() {
    if (gradients_ >= 2 && tokens_ == 0) {
      cuda::zero_bytes(args_.outputs[3].data, args_.outputs[3].bytes(), args_.stream);
    }
    for (int64_t begin = 0; begin < tokens_; begin += layout_.chunk_rows) {
      chunk(begin, std::min(layout_.chunk_rows, tokens_ - begin));
    }
    cuda::launch(totals_kernel, {1, kTotalThreads}, args_.stream, at<float>(layout_.losses),
                 at<int32_t>(layout_.correct), tokens_, args_.inputs[3].as<float>(), args_.outputs[0].as<float>(),
                 args_.outputs[1].as<int32_t>());
  }

 private:
  template <typename U>
  U* at(int64_t offset) const {
    return reinterpret_cast<U*>(args_.workspace + offset);
  }

  void chunk(int64_t begin, int64_t count) {
    const T* x = x_.as<T>() + begin * width_;
    multiply({.m = count,
              .n = vocabulary_,
              .k = width_,
              .transpose_b = true,
              .out = DType::kF32,
              .a = x,
              .b = w_.data,
              .d = logits_});
    cuda::launch(cross_entropy_kernel<T>, {count, kThreads}, args_.stream, logits_,
                 args_.inputs[2].as<int32_t>() + begin, args_.inputs[3].as<float>(), vocabulary_,
                 at<float>(layout_.losses) + begin, at<int32_t>(layout_.correct) + begin, gradient_);
    if (gradients_ >= 1) {
      multiply({.m = count,
                .n = width_,
                .k = vocabulary_,
                .out = x_.dtype,
                .a = gradient_,
                .b = w_.data,
                .d = args_.outputs[2].as<T>() + begin * width_});
    }
    if (gradients_ >= 2) {
      void* dw = args_.outputs[3].data;
      multiply({.m = vocabulary_,
                .n = width_,
                .k = count,
                .transpose_a = true,
                .out = DType::kF32,
                .a = gradient_,
                .b = x,
                .c = begin > 0 ? dw : nullptr,
                .d = dw});
    }
  }

  void multiply(cuda::Product product) {
    product.in = x_.dtype;
    product.workspace = at<std::byte>(layout_.product);
    product.workspace_bytes = CudaLossWorkspace::kProductBytes;
    cuda::multiply(product, args_);
  }

  const KernelArgs& args_;
  const TensorView &x_, &w_;
  int64_t tokens_, width_, vocabulary_;
  int gradients_;
  CudaLossWorkspace layout_;
  float* logits_;
  T* gradient_;
};

}  // namespace

void linear_cross_entropy_cuda(const KernelArgs& args) {
  with_real(args.inputs[0].dtype, [&]<typename T>(T*) { LossKernel<T>(args).run(); });
}

}  // namespace spillway::ops
