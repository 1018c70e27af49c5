// Works like linear_cross_entropy's: products of cuBLASLt, and a block for each row of logits between them. Not yet
// measured.
#include "ops/linear_log_prob/operands.h"
#include "ops/logits/chunked_logits.cuh"
#include "ops/real.h"

namespace spillway::ops {
namespace {

using namespace linear_log_prob_op;

constexpr int kThreads = 512;

float inverse_temperature(const KernelArgs& args) {
  return static_cast<float>(1 / args.attributes.real("temperature"));
}

// The results by Output: numbers of one token each, from the chunk's first on. One that is absent is null.
struct RowResults {
  float* at[kLogProbOutputs];
};

// Returns the entropy of the softmax over the `top` largest of a row's logits, which it visits in order: a pass over
// the row for each that differs. All threads get the result.
template <int kWidth>
__device__ float top_entropy_of(const float* row, int64_t vocabulary, int64_t top, float maximum) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  float bound = kInfinity, total = 0, weighted = 0;
  for (int64_t left = std::min(top, vocabulary); left > 0;) {
    float largest = -kInfinity, count = 0;
    cuda::for_each_vector<kWidth>(vocabulary, threadIdx.x, kThreads, [&](cuda::Span<kWidth> span) {
      const cuda::Floats<kWidth> x = cuda::load(row, span);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        if (i >= span.count || !(x[i] < bound) || x[i] < largest) continue;
        count = x[i] > largest ? 1.0f : count + 1;
        largest = x[i];
      }
    });
    bound = cuda::block_reduce<kThreads>(largest, -kInfinity, cuda::Max());
    count = cuda::block_sum<kThreads>(largest == bound ? count : 0.0f);
    if (bound == -kInfinity) break;
    const float taken = fminf(count, static_cast<float>(left)), below = bound - maximum, power = taken * expf(below);
    total += power;
    weighted += power * below;
    left -= static_cast<int64_t>(taken);
  }
  return fmaxf(0.0f, logf(total) - weighted / total);
}

template <int kWidth>
__device__ void divide_row(float* row, int64_t vocabulary, float inverse) {
  if (inverse == 1) return;
  cuda::for_each_vector<kWidth>(vocabulary, threadIdx.x, kThreads, [&](cuda::Span<kWidth> span) {
    cuda::Floats<kWidth> x = cuda::load(row, span);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) x[i] *= inverse;
    cuda::store(x, row, span);
  });
  __syncthreads();
}

template <int kWidth>
__global__ void __launch_bounds__(kThreads) log_prob_kernel(float* logits, const int32_t* labels, int64_t vocabulary,
                                                            float inverse, int64_t top, RowResults results) {
  float* row = logits + int64_t{blockIdx.x} * vocabulary;
  const int32_t label = labels[blockIdx.x];
  if (label < 0) {
    if (threadIdx.x < kLogProbOutputs && results.at[threadIdx.x] != nullptr) results.at[threadIdx.x][blockIdx.x] = 0;
    return;
  }
  cuda::require(label < vocabulary);
  divide_row<kWidth>(row, vocabulary, inverse);
  const auto [maximum, log_sum] = log_sum_of<kThreads, kWidth>(row, vocabulary);
  // These are the mean of log p, whose negative is the entropy; the sum of p^2; and that of the logits.
  float mean = 0, squares = 0, all = 0;
  cuda::for_each_vector<kWidth>(vocabulary, threadIdx.x, kThreads, [&](cuda::Span<kWidth> span) {
    const cuda::Floats<kWidth> x = cuda::load(row, span);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float log_p = x[i] - log_sum, p = i < span.count ? expf(log_p) : 0.0f;
      mean += i < span.count ? p * log_p : 0.0f;
      squares += p * p;
      all += i < span.count ? x[i] : 0.0f;
    }
  });
  mean = cuda::block_sum<kThreads>(mean);
  squares = cuda::block_sum<kThreads>(squares);
  all = cuda::block_sum<kThreads>(all);
  const float top_entropy = top > 0 ? top_entropy_of<kWidth>(row, vocabulary, top, maximum) : 0.0f;
  if (threadIdx.x != 0) return;
  results.at[kLogProbOut][blockIdx.x] = row[label] - log_sum;
  results.at[kEntropyOut][blockIdx.x] = -mean;
  results.at[kLogSumOut][blockIdx.x] = log_sum;
  results.at[kMeanLogitOut][blockIdx.x] = all / static_cast<float>(vocabulary);
  results.at[kIsLikeliestOut][blockIdx.x] = row[label] >= maximum ? 1.0f : 0.0f;
  results.at[kLogSquareSumOut][blockIdx.x] = logf(squares);
  if (top > 0) results.at[kTopEntropyOut][blockIdx.x] = top_entropy;
}

// The cotangents of the chunk's tokens; one that is absent is null.
struct RowCotangents {
  const float *log_sum, *row_entropy, *log_prob, *entropy;
};

template <typename T>
__global__ void __launch_bounds__(kThreads)
    log_prob_grad_kernel(const float* logits, const int32_t* labels, int64_t vocabulary, float inverse,
                         float inverse_cap, RowCotangents c, T* gradient) {
  constexpr int kWidth = cuda::kVector<T>;
  const int64_t row = int64_t{blockIdx.x} * vocabulary;
  const int32_t label = labels[blockIdx.x];
  const float log_prob = label < 0 || c.log_prob == nullptr ? 0.0f : c.log_prob[blockIdx.x];
  const float entropy = label < 0 || c.entropy == nullptr ? 0.0f : c.entropy[blockIdx.x];
  const float log_sum = c.log_sum[blockIdx.x], row_entropy = c.row_entropy[blockIdx.x];
  cuda::require(label < vocabulary);
  cuda::for_each_vector<kWidth>(vocabulary, threadIdx.x, kThreads, [&](cuda::Span<kWidth> span) {
    cuda::Floats<kWidth> g{};
    if (label >= 0) {
      g = cuda::load(logits + row, span);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        const float log_p = g[i] * inverse - log_sum;
        const float at_label = span.begin + i == label ? log_prob : 0.0f;
        const float slope = cap_slope(g[i], inverse_cap);
        g[i] = (at_label - expf(log_p) * (log_prob + entropy * (log_p + row_entropy))) * inverse * slope;
      }
    }
    cuda::store(g, gradient + row, span);
  });
}

template <typename T>
void run_log_prob(const KernelArgs& args) {
  const auto* labels = args.inputs[kLabels].as<int32_t>();
  CudaChunkedLogits<T> chunks(args, {.x = args.inputs[kX], .w = args.inputs[kW]});
  chunks.run([&](float* logits, T*, int64_t begin, int64_t count) {
    RowResults results{};
    for (size_t i = 0; i < args.outputs.size(); ++i) results.at[i] = args.outputs[i].as<float>() + begin;
    cuda::launch(log_prob_kernel<cuda::kVector<T>>, {count, kThreads}, args.stream, logits, labels + begin,
                 chunks.shape().vocabulary, inverse_temperature(args), args.attributes.integer("top"), results);
  });
}

template <typename T>
void run_log_prob_grad(const KernelArgs& args) {
  const bool wants_x = args.attributes.integer("x_gradient") != 0, wants_w = args.attributes.integer("w_gradient") != 0;
  const auto* labels = args.inputs[kLabels].as<int32_t>();
  const auto in = [&](Input input, int64_t begin) -> const float* {
    return args.inputs[input].data ? args.inputs[input].as<float>() + begin : nullptr;
  };
  CudaChunkedLogits<T> chunks(args, {.x = args.inputs[kX],
                                     .w = args.inputs[kW],
                                     .dx = wants_x ? &args.outputs[0] : nullptr,
                                     .dw = wants_w ? &args.outputs[wants_x ? 1 : 0] : nullptr});
  chunks.run([&](const float* logits, T* gradient, int64_t begin, int64_t count) {
    const RowCotangents c{in(kLogSum, begin), in(kEntropy, begin), in(kLogProbCotangent, begin),
                          in(kEntropyCotangent, begin)};
    cuda::launch(log_prob_grad_kernel<T>, {count, kThreads}, args.stream, logits, labels + begin,
                 chunks.shape().vocabulary, inverse_temperature(args), LogitCap(args.attributes).inverse(), c,
                 gradient);
  });
}

}  // namespace

void linear_log_prob_cuda(const KernelArgs& args) {
  with_real(args.inputs[kX].dtype, [&]<typename T>(T*) { run_log_prob<T>(args); });
}

void linear_log_prob_grad_cuda(const KernelArgs& args) {
  with_real(args.inputs[kX].dtype, [&]<typename T>(T*) { run_log_prob_grad<T>(args); });
}

}  // namespace spillway::ops
