// router_load and its gradient read the logits once; the others are bound by the time of a launch. Not yet measured.
#include "backend/cuda/launch.cuh"
#include "backend/cuda/reduce.cuh"
#include "backend/kernel.h"
#include "ops/balance_loss/operands.h"
#include "ops/column_sums.h"

namespace spillway::ops {
namespace {

constexpr int kThreads = 128;

// Calls body(e) for every expert in [0, experts), of a thread's own.
template <typename Body>
__device__ void for_thread(int64_t experts, const Body& body) {
  for (int64_t e = threadIdx.x; e < experts; e += kThreads) body(e);
}

// The largest logit of a row, and the sum of the exponentials of its logits less that.
struct RowScale {
  float largest, sum;

  [[nodiscard]] __device__ float probability(float logit) const { return expf(logit - largest) / sum; }
};

__device__ RowScale scale_of_row(const float* logits, int64_t experts) {
  float largest = cuda::kNothing, sum = 0;
  for_thread(experts, [&](int64_t e) { largest = fmaxf(largest, logits[e]); });
  largest = cuda::block_reduce<kThreads>(largest, cuda::kNothing, cuda::Max());
  for_thread(experts, [&](int64_t e) { sum += expf(logits[e] - largest); });
  return {largest, cuda::block_sum<kThreads>(sum)};
}

// A block sums the probabilities of a block of rows.
__global__ void __launch_bounds__(kThreads)
    probability_sums_kernel(const float* logits, SequenceRows sequences, int64_t rows, int64_t experts,
                            int64_t block_rows, float* partial) {
  float* const sums = partial + blockIdx.x * experts;
  for_thread(experts, [&](int64_t e) { sums[e] = 0; });
  const int64_t end =
      std::min(balance_loss_op::rows_that_count(sequences, rows), (int64_t{blockIdx.x} + 1) * block_rows);
  for (int64_t row = blockIdx.x * block_rows; row < end; ++row) {
    const float* const own = logits + row * experts;
    const RowScale scale = scale_of_row(own, experts);
    for_thread(experts, [&](int64_t e) { sums[e] += scale.probability(own[e]); });
  }
}

// The pairs of a router. Without sequences, those of all rows count, and `order` may be null.
struct RoutedPairs {
  const int32_t *offsets, *order;
  int64_t rows, top_k;
  SequenceRows sequences;

  [[nodiscard]] __device__ int32_t of_expert(int64_t e) const {
    if (sequences.offsets == nullptr) return offsets[e + 1] - offsets[e];
    return balance_loss_op::pairs_of_rows(order, offsets, e, balance_loss_op::rows_that_count(sequences, rows), top_k);
  }
};

__global__ void __launch_bounds__(kThreads) load_kernel(const float* partial, int64_t blocks, RoutedPairs routed,
                                                        int64_t experts, float* pairs, float* probabilities) {
  for_thread(experts, [&](int64_t e) {
    pairs[e] = static_cast<float>(routed.of_expert(e));
    float sum = 0;
    for (int64_t block = 0; block < blocks; ++block) sum += partial[block * experts + e];
    probabilities[e] = sum;
  });
}

__global__ void __launch_bounds__(kThreads)
    router_load_grad_kernel(const float* logits, const float* slopes, const float* addend, SequenceRows sequences,
                            int64_t experts, float* dlogits) {
  const bool counts = blockIdx.x < balance_loss_op::rows_that_count(sequences, gridDim.x);
  const int64_t first = blockIdx.x * experts;
  logits += first;
  const RowScale scale = scale_of_row(logits, experts);
  float mean = 0;
  for_thread(experts, [&](int64_t e) { mean += scale.probability(logits[e]) * slopes[e]; });
  mean = cuda::block_sum<kThreads>(mean);
  for_thread(experts, [&](int64_t e) {
    const float dlogit = counts ? scale.probability(logits[e]) * (slopes[e] - mean) : 0.0f;
    dlogits[first + e] = addend == nullptr ? dlogit : addend[first + e] + dlogit;
  });
}

// Returns E over the square of the number of rows in every thread, 0 for none.
__device__ double factor_of(const float* pairs, int64_t experts, int64_t top_k) {
  double sum = 0;
  for_thread(experts, [&](int64_t e) { sum += double{pairs[e]}; });
  const double rows = cuda::block_sum<kThreads>(sum) / static_cast<double>(top_k);
  return rows == 0 ? 0 : static_cast<double>(experts) / (rows * rows);
}

__global__ void __launch_bounds__(kThreads)
    balance_loss_kernel(const float* pairs, const float* probabilities, int64_t experts, int64_t top_k,
                        const float* weight, float* weighted, float* loss) {
  const double factor = factor_of(pairs, experts, top_k);
  double sum = 0;
  for_thread(experts, [&](int64_t e) { sum += double{pairs[e]} * double{probabilities[e]}; });
  sum = factor * cuda::block_sum<kThreads>(sum);
  if (threadIdx.x != 0) return;
  *weighted = static_cast<float>(double{*weight} * sum);
  *loss = static_cast<float>(sum);
}

__global__ void __launch_bounds__(kThreads)
    balance_loss_grad_kernel(const float* pairs, int64_t experts, int64_t top_k, const float* weight, float* dpairs,
                             float* dprobabilities) {
  const double factor = double{*weight} * factor_of(pairs, experts, top_k);
  for_thread(experts, [&](int64_t e) {
    dpairs[e] = 0;
    dprobabilities[e] = static_cast<float>(factor * double{pairs[e]});
  });
}

__global__ void __launch_bounds__(kThreads)
    largest_load_kernel(balance_loss_op::ExpertPairs use, const float* before, float* out) {
  float most = 0;
  for_thread(use.experts, [&](int64_t e) { most = fmaxf(most, static_cast<float>(use.of(e))); });
  most = cuda::block_reduce<kThreads>(most, 0.0f, cuda::Max());
  if (threadIdx.x != 0) return;
  const auto pairs = static_cast<float>(use.of_all());
  const float load = pairs == 0 ? 0 : most * static_cast<float>(use.experts) / pairs;
  *out = before == nullptr ? load : fmaxf(*before, load);
}

// Counts in f32, which has whole numbers up to far more experts than a layer has.
__global__ void __launch_bounds__(kThreads)
    reached_experts_kernel(balance_loss_op::ExpertPairs use, const int32_t* before, int32_t* out) {
  float own = 0;
  for_thread(use.experts, [&](int64_t e) { own += use.of(e) > 0 ? 1.0f : 0.0f; });
  const auto reached = static_cast<int32_t>(cuda::block_sum<kThreads>(own));
  if (threadIdx.x == 0) *out = before == nullptr ? reached : *before + reached;
}

}  // namespace

void router_load_cuda(const KernelArgs& args) {
  const TensorView& logits = args.inputs[balance_loss_op::kLogits];
  const int64_t rows = logits.shape[0], experts = logits.shape[1], block_rows = rows_of_block(rows);
  const int64_t blocks = div_ceil(rows, block_rows);
  auto* const partial = reinterpret_cast<float*>(args.workspace);
  const SequenceRows sequences(args.inputs[balance_loss_op::kSeqOffsets]);
  cuda::launch(probability_sums_kernel, {blocks, kThreads}, args.stream, logits.as<float>(), sequences, rows, experts,
               block_rows, partial);
  const TensorView& order = args.inputs[balance_loss_op::kOrder];
  const RoutedPairs routed{args.inputs[balance_loss_op::kOffsets].as<int32_t>(), order.as<int32_t>(), rows,
                           order.as<int32_t>() == nullptr ? 0 : order.shape[1], sequences};
  const balance_loss_op::Load load(args.outputs[0]);
  cuda::launch(load_kernel, {1, kThreads}, args.stream, partial, blocks, routed, experts, load.pairs,
               load.probabilities);
}

void router_load_grad_cuda(const KernelArgs& args) {
  using namespace balance_loss_op;
  const TensorView& logits = args.inputs[kLogits];
  cuda::launch(router_load_grad_kernel, {logits.shape[0], kThreads}, args.stream, logits.as<float>(),
               balance_loss_op::Load(args.inputs[kDLoad]).probabilities, args.inputs[kAddend].as<float>(),
               SequenceRows(args.inputs[kGradSeqOffsets]), logits.shape[1], args.outputs[0].as<float>());
}

void balance_loss_cuda(const KernelArgs& args) {
  const TensorView& view = args.inputs[balance_loss_op::kLoad];
  const balance_loss_op::Load load(view);
  cuda::launch(balance_loss_kernel, {1, kThreads}, args.stream, load.pairs, load.probabilities, view.shape[1],
               args.attributes.integer("top_k"), args.inputs[balance_loss_op::kWeight].as<float>(),
               args.outputs[0].as<float>(), args.outputs[1].as<float>());
}

void balance_loss_grad_cuda(const KernelArgs& args) {
  const balance_loss_op::Load load(args.inputs[balance_loss_op::kLoad]), dload(args.outputs[0]);
  cuda::launch(balance_loss_grad_kernel, {1, kThreads}, args.stream, load.pairs, args.outputs[0].shape[1],
               args.attributes.integer("top_k"), args.inputs[balance_loss_op::kWeight].as<float>(), dload.pairs,
               dload.probabilities);
}

void largest_load_cuda(const KernelArgs& args) {
  cuda::launch(largest_load_kernel, {1, kThreads}, args.stream,
               balance_loss_op::ExpertPairs(args.inputs[balance_loss_op::kUse]),
               args.inputs[balance_loss_op::kBefore].as<float>(), args.outputs[0].as<float>());
}

void reached_experts_cuda(const KernelArgs& args) {
  cuda::launch(reached_experts_kernel, {1, kThreads}, args.stream,
               balance_loss_op::ExpertPairs(args.inputs[balance_loss_op::kUse]),
               args.inputs[balance_loss_op::kBefore].as<int32_t>(), args.outputs[0].as<int32_t>());
}

}  // namespace spillway::ops
