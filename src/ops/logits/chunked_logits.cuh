// The loop over chunks of logits on a GPU, for any kernel of rows. The tokens that are targets are known on the GPU
// only, so rows without a label go through the products, too; their gradient is zero.
#pragma once

#include <limits>

#include "backend/cuda/launch.cuh"
#include "backend/cuda/map.cuh"
#include "backend/cuda/product.h"
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/vector.cuh"
#include "backend/kernel.h"
#include "ops/logits/cuda_chunks.h"
#include "ops/logits/logit_cap.h"

namespace spillway::ops {

// A running maximum, and the sum of exp(x - maximum) over the numbers so far.
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

// The maximum and the logarithm of the sum of exponentials of a row of logits, computed by a block of kThreads, in all
// of its threads.
struct LogSum {
  float maximum, value;
};
// The logits are multiplied by `factor` first.
template <int kThreads, int kWidth>
__device__ LogSum log_sum_of(const float* row, int64_t vocabulary, float factor = 1) {
  Exponentials mine;
  cuda::for_each_vector<kWidth>(vocabulary, threadIdx.x, kThreads, [&](cuda::Span<kWidth> span) {
    cuda::Floats<kWidth> v = cuda::load(row, span);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) v[i] *= factor;
    mine.add(v, span.count);
  });
  const float maximum =
      cuda::block_reduce<kThreads>(mine.maximum, -std::numeric_limits<float>::infinity(), cuda::Max());
  // Threads beyond a short row have seen nothing.
  const float sum = cuda::block_sum<kThreads>(mine.sum > 0 ? mine.sum * expf(mine.maximum - maximum) : 0.0f);
  return {maximum, maximum + logf(sum)};
}

struct CapLogits {
  static constexpr int kWidth = cuda::kVector<float>;
  float* logits;
  float cap;

  __device__ void operator()(cuda::Span<kWidth> span) const {
    cuda::Floats<kWidth> v = cuda::load(logits, span);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) v[i] = cap * tanhf(v[i] / cap);
    cuda::store(v, logits, span);
  }
};

// Returns the slope of the cap at a capped logit; exactly 1 without one.
__device__ inline float cap_slope(float logit, float inverse_cap) {
  const float part = logit * inverse_cap;
  return 1 - part * part;
}

struct CudaLogitOperands {
  const TensorView& x;             // [T, D]
  const TensorView& w;             // [V, D]
  const TensorView* dx = nullptr;  // like x
  const TensorView* dw = nullptr;  // f32, like w
};

template <typename T>
class CudaChunkedLogits {
 public:
  CudaChunkedLogits(const KernelArgs& args, const CudaLogitOperands& operands)
      : args_(args),
        o_(operands),
        shape_{o_.x.dtype, o_.x.shape[0], o_.x.shape[1], o_.w.shape[0], o_.dx != nullptr, o_.dw != nullptr},
        layout_(shape_) {}

  [[nodiscard]] const LogitShape& shape() const { return shape_; }
  template <typename U>
  [[nodiscard]] U* at(int64_t offset) const {
    return reinterpret_cast<U*>(args_.workspace + offset);
  }

  // Returns the logits of tokens [begin, begin + count), f32 [count, V], valid until the next call. REQUIRES: they are
  // a chunk of run().
  float* logits(int64_t begin, int64_t count, const LogitCap& cap) {
    auto* logits = at<float>(layout_.logits);
    multiply({.m = count,
              .n = shape_.vocabulary,
              .k = shape_.width,
              .transpose_b = true,
              .out = DType::kF32,
              .a = o_.x.as<T>() + begin * shape_.width,
              .b = o_.w.data,
              .d = logits});
    if (cap.cap > 0) cuda::map(count * shape_.vocabulary, CapLogits{logits, cap.cap}, args_.stream);
    return logits;
  }

  // Calls launch(logits, gradient, begin, count), which starts a kernel on the rows of tokens [begin, begin + count),
  // whose logits are capped; gradient, which is null if not wanted, is that of the logits before the cap.
  template <typename Launch>
  void run(const Launch& launch) {
    if (o_.dw && shape_.tokens == 0) cuda::zero_bytes(o_.dw->data, o_.dw->bytes(), args_.stream);
    for (int64_t begin = 0; begin < shape_.tokens; begin += layout_.chunk_rows)
      chunk(begin, std::min(layout_.chunk_rows, shape_.tokens - begin), launch);
  }

 private:
  template <typename Launch>
  void chunk(int64_t begin, int64_t count, const Launch& launch) {
    const T* x = o_.x.as<T>() + begin * shape_.width;
    T* gradient = o_.dx || o_.dw ? at<T>(layout_.gradient) : nullptr;
    launch(logits(begin, count, LogitCap(args_.attributes)), gradient, begin, count);
    if (o_.dx) {
      multiply({.m = count,
                .n = shape_.width,
                .k = shape_.vocabulary,
                .out = shape_.dtype,
                .a = gradient,
                .b = o_.w.data,
                .d = o_.dx->as<T>() + begin * shape_.width});
    }
    if (o_.dw) {
      multiply({.m = shape_.vocabulary,
                .n = shape_.width,
                .k = count,
                .transpose_a = true,
                .out = DType::kF32,
                .a = gradient,
                .b = x,
                .d = o_.dw->data,
                .accumulate = begin > 0});
    }
  }

  void multiply(cuda::Product product) {
    product.in = shape_.dtype;
    product.workspace = at<std::byte>(layout_.product);
    product.workspace_bytes = CudaLogitWorkspace::kProductBytes;
    cuda::multiply(product, args_);
  }

  const KernelArgs& args_;
  CudaLogitOperands o_;
  LogitShape shape_;
  CudaLogitWorkspace layout_;
};

}  // namespace spillway::ops
