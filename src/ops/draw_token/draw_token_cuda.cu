// A block of threads computes a row. It reads the logits for the largest, and again for the sums of each temperature;
// the time of few rows is that of reading by one multiprocessor.
#include "backend/cuda/launch.cuh"
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/vector.cuh"
#include "backend/kernel.h"
#include "ops/draw_token/operands.h"
#include "ops/draw_token/token_distribution.h"

namespace spillway::ops {
namespace {

using namespace draw_token_op;

constexpr int kThreads = 1024, kWarps = kThreads / cuda::kWarp, kWidth = 4;

struct Least {
  __device__ int64_t operator()(int64_t a, int64_t b) const { return a < b ? a : b; }
};

// The row of a block's threads. All of them call its functions, and all get the results.
struct Row {
  const float* logits;
  int64_t vocabulary;
  const int32_t* barred;
  int64_t barred_ids;
  double* sums;  // shared: of the weights of each block of tokens
  float top = cuda::kNothing;

  __device__ int64_t blocks() const { return div_ceil(vocabulary, kTokenBlock); }

  // Returns true if any of the ids from `begin` to below `end` is barred.
  __device__ bool is_barred(int64_t begin, int64_t end) const {
    bool is = false;
    for (int64_t i = 0; i < barred_ids; ++i) is |= barred[i] >= begin && barred[i] < end;
    return is;
  }

  __device__ float weight(float logit, float factor) const {
    return logit == logit ? expf((logit - top) * factor) : 0.0f;
  }

  // Calls f(logit) for those of a block's open logits that are this lane's.
  template <typename Function>
  __device__ void for_each_open(int64_t block, const Function& f) const {
    const int64_t begin = block * kTokenBlock, count = std::min(int64_t{kTokenBlock}, vocabulary - begin);
    const bool has_barred = is_barred(begin, begin + count);
    cuda::for_each_vector<kWidth>(count, cuda::lane_index(), cuda::kWarp, [&](cuda::Span<kWidth> span) {
      const auto values = cuda::load(logits + begin, span);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        const int64_t id = begin + span.begin + i;
        if (i < span.count && !(has_barred && is_barred(id, id + 1))) f(values[i]);
      }
    });
  }

  __device__ void find_top() {
    top = cuda::kNothing;
    for (int64_t block = cuda::warp_index(); block < blocks(); block += kWarps)
      for_each_open(block, [&](float logit) { top = fmaxf(top, logit); });
    top = cuda::block_reduce<kThreads>(top, cuda::kNothing, cuda::Max());
  }

  __device__ int64_t likeliest() const {
    int64_t first = vocabulary;
    for (int64_t i = threadIdx.x; i < vocabulary && first == vocabulary; i += kThreads) {
      if (logits[i] == top && !is_barred(i, i + 1)) first = i;
    }
    first = cuda::block_reduce<kThreads>(first, vocabulary, Least());
    return first < vocabulary ? first : 0;
  }

  // Fills `sums` and returns their sum.
  __device__ double add_up(float factor) const {
    __shared__ double total;
    for (int64_t block = cuda::warp_index(); block < blocks(); block += kWarps) {
      double sum = 0;
      for_each_open(block, [&](float logit) { sum += weight(logit, factor); });
      sum = cuda::warp_reduce(sum, cuda::Sum());
      if (cuda::lane_index() == 0) sums[block] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      total = 0;
      for (int64_t block = 0; block < blocks(); ++block) total += sums[block];
    }
    __syncthreads();
    return total;
  }

  // Does what TokenDistribution::log_probability does. `total` is as for draw().
  __device__ double log_probability(int64_t id, float factor, double total) const {
    double log_total = log(total);
    for (int64_t i = 0; i < barred_ids; ++i) {
      if (barred[i] < 0) continue;
      const double exponent = (static_cast<double>(logits[barred[i]]) - top) * factor;
      if (exponent > -std::numeric_limits<double>::infinity())
        log_total = fmax(log_total, exponent) + log1p(exp(-fabs(log_total - exponent)));
    }
    return (static_cast<double>(logits[id]) - top) * factor - log_total;
  }

  // Does what TokenDistribution::draw does. REQUIRES: `sums` are those of `factor`, and `total` is their total.
  __device__ int64_t draw(float factor, double total, double uniform) const {
    __shared__ float weights[kTokenBlock];
    __shared__ double left;
    __shared__ int64_t block, drawn;
    if (!(total > 0)) return 0;
    if (threadIdx.x == 0) {
      left = uniform * total;
      block = 0;
      while (block + 1 < blocks() && left >= sums[block]) left -= sums[block++];
    }
    __syncthreads();
    const int64_t begin = block * kTokenBlock, count = std::min(int64_t{kTokenBlock}, vocabulary - begin);
    for (int64_t i = threadIdx.x; i < count; i += kThreads)
      weights[i] = is_barred(begin + i, begin + i + 1) ? 0.0f : weight(logits[begin + i], factor);
    __syncthreads();
    if (threadIdx.x == 0) {
      drawn = begin;
      for (int64_t i = 0; i < count && left >= 0; ++i) {
        if (weights[i] == 0) continue;
        drawn = begin + i;
        left -= weights[i];
      }
    }
    __syncthreads();
    return drawn;
  }
};

__global__ void __launch_bounds__(kThreads)
    draw_token_kernel(const float* logits, int64_t vocabulary, const int32_t* barred, int64_t barred_ids,
                      const float* inverse_temperatures, const float* uniforms,
                      const float* logprob_inverse_temperatures, int32_t* ids, float* logprobs) {
  const int64_t at = blockIdx.x;
  const float factor = inverse_temperatures[at], logprob_factor = logprob_inverse_temperatures[at];
  Row row{logits + at * vocabulary, vocabulary, barred + at * barred_ids, barred_ids,
          reinterpret_cast<double*>(cuda::dynamic_shared())};
  int64_t id = 0;
  double logprob = 0;
  if (!(factor < 0)) {
    row.find_top();
    double total = 0;
    const bool draws = factor < std::numeric_limits<float>::infinity();
    if (draws) {
      total = row.add_up(factor);
      id = row.draw(factor, total, uniforms[at]);
    } else {
      id = row.likeliest();
    }
    if (logprob_factor > 0) {
      if (!draws || logprob_factor != factor) total = row.add_up(logprob_factor);
      logprob = row.log_probability(id, logprob_factor, total);
    }
    if (const float logit = logits[at * vocabulary + id]; logit != logit) logprob = logit;  // it is NaN
  }
  if (threadIdx.x != 0) return;
  ids[at] = static_cast<int32_t>(id);
  logprobs[at] = static_cast<float>(logprob);
}

}  // namespace

void draw_token_cuda(const KernelArgs& args) {
  const TensorView &logits = args.inputs[kLogits], &barred = args.inputs[kBarred];
  const int64_t vocabulary = logits.shape[1];
  const int64_t shared_bytes = div_ceil(vocabulary, kTokenBlock) * int64_t{sizeof(double)};
  cuda::launch(draw_token_kernel, {logits.shape[0], kThreads, shared_bytes}, args.stream, logits.as<float>(),
               vocabulary, barred.as<int32_t>(), barred.shape[1], args.inputs[kInverseTemperature].as<float>(),
               args.inputs[kUniform].as<float>(), args.inputs[kLogprobInverseTemperature].as<float>(),
               args.outputs[kIds].as<int32_t>(), args.outputs[kLogprobs].as<float>());
}

}  // namespace spillway::ops
