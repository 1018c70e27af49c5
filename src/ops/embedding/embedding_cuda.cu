// The kernels are bound by memory. Forward: the tokens' rows are read and written (4 bytes per element in bf16).
// Backward: dy is read, the rows of the distinct tokens are read and written, and the table's gradient is cleared or
// copied first, but where it takes its addend's place. Finding the tokens of a row reads ids from the cache only. Not
// yet measured.
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/vector.cuh"
#include "backend/kernel.h"
#include "ops/embedding/gather.cuh"
#include "ops/embedding/occurrences.h"
#include "ops/embedding/operands.h"
#include "ops/embedding/padding.h"
#include "ops/real.h"
#include "ops/real_or.h"

namespace spillway::ops {
namespace {

using namespace embedding_op;

constexpr int kThreads = 256;

// Uses maxima of integers, which do not depend on the order in which atomics come.
__global__ void __launch_bounds__(kThreads)
    find_occurrences_kernel(const int32_t* ids, int tokens, int64_t vocabulary, Occurrence* occurrences) {
  const int64_t token = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (token >= tokens) return;
  cuda::require(ids[token] >= 0 && ids[token] < vocabulary);
  Occurrence& occurrence = occurrences[ids[token]];
  atomicMax(&occurrence.from_first, tokens - static_cast<int>(token));
  atomicMax(&occurrence.past_last, static_cast<int>(token) + 1);
}

// Adds up, for one row of the table and in their order, dy of all tokens that have it: the block of the first such
// token does so, with a thread for each vector of the columns [first_column, ...). The row `padding` gets nothing.
template <typename D, typename G>
__global__ void __launch_bounds__(kThreads)
    add_tokens_kernel(const int32_t* ids, int tokens, const Occurrence* occurrences, const D* dy, G* out, int64_t width,
                      float scale, int64_t padding) {
  constexpr int kWidth = cuda::kVector<D, G>;
  const int64_t tiles = div_ceil(width, int64_t{kThreads} * kWidth);
  const int token = static_cast<int>(blockIdx.x / tiles);
  const int64_t column = (blockIdx.x % tiles * kThreads + threadIdx.x) * kWidth;
  const int32_t id = ids[token];
  const Occurrence occurrence = occurrences[id];
  if (tokens - token != occurrence.from_first || id == padding) return;

  const cuda::Span<kWidth> span = cuda::span_at<kWidth>(column, width);
  cuda::Floats<kWidth> sum = {};
  if (column < width) sum = cuda::load(out + id * width, span);
  const auto add = [&](int64_t row) {
    if (column >= width) return;
    const cuda::Floats<kWidth> more = cuda::load(dy + row * width, span);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sum[i] += more[i] * scale;
  };
  // Every warp looks through all tokens up to the last one, 32 at a time.
  for (int first = token; first < occurrence.past_last; first += cuda::kWarp) {
    const int candidate = first + cuda::lane_index();
    unsigned found = __ballot_sync(cuda::kAllLanes, candidate < occurrence.past_last && ids[candidate] == id);
    for (; found != 0; found &= found - 1) add(first + __ffs(found) - 1);
  }
  if (column < width) cuda::store(sum, out + id * width, span);
}

// Uses a block for each row that is written.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    scaled_rows_kernel(const T* table, const int32_t* ids, T* out, int64_t vocabulary, int64_t width, float scale) {
  constexpr int kWidth = cuda::kVector<T>;
  const int64_t id = ids[blockIdx.x];
  cuda::require(id >= 0 && id < vocabulary);
  cuda::for_each_vector<kWidth>(width, threadIdx.x, kThreads, [&](cuda::Span<kWidth> span) {
    cuda::Floats<kWidth> v = cuda::load(table + id * width, span);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) v[i] *= scale;
    cuda::store(v, out + int64_t{blockIdx.x} * width, span);
  });
}

float scale_of(const KernelArgs& args) { return static_cast<float>(real_or(args.attributes, "scale", 1)); }

}  // namespace

void embedding_cuda(const KernelArgs& args) {
  const TensorView &ids = args.inputs[kIds], &table = args.inputs[kTable], &out = args.outputs[0];
  const float scale = scale_of(args);
  if (scale == 1) return gather(table, ids, out, args.stream);
  with_real(table.dtype, [&]<typename T>(T*) {
    cuda::launch(scaled_rows_kernel<T>, {out.shape[0], kThreads}, args.stream, table.as<T>(), ids.as<int32_t>(),
                 out.as<T>(), table.shape[0], table.shape[1], scale);
  });
}

void embedding_grad_cuda(const KernelArgs& args) {
  const TensorView &ids = args.inputs[kIds], &dy = args.inputs[kDy], &out = args.outputs[0];
  const int64_t vocabulary = out.shape[0], width = out.shape[1];
  const int tokens = narrow<int>(dy.shape[0]);
  auto* occurrences = reinterpret_cast<Occurrence*>(args.workspace);
  cuda::copy_or_zero(args.inputs[kAddend], out, args.stream);
  cuda::zero_bytes(occurrences, occurrences_bytes(vocabulary), args.stream);
  cuda::launch(find_occurrences_kernel, {div_ceil(tokens, kThreads), kThreads}, args.stream, ids.as<int32_t>(), tokens,
               vocabulary, occurrences);
  with_real(dy.dtype, [&]<typename D>(D*) {
    with_real(out.dtype, [&]<typename G>(G*) {
      const int64_t tiles = div_ceil(width, int64_t{kThreads} * cuda::kVector<D, G>);
      cuda::launch(add_tokens_kernel<D, G>, {tokens * tiles, kThreads}, args.stream, ids.as<int32_t>(), tokens,
                   occurrences, dy.as<D>(), out.as<G>(), width, scale_of(args), padding_idx(args.attributes));
    });
  });
}

}  // namespace spillway::ops
