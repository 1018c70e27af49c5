// A thread computes a channel, token by token, with its state in global memory beside those of the block's other
// channels: of one long sequence there are as many threads as channels. Sums over channels for db and dc go through a
// block's warps at every token. Not yet measured.
#include "backend/cuda/launch.cuh"
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/vector.cuh"
#include "ops/real.h"
#include "ops/selective_scan/blocks.h"
#include "ops/selective_scan/operands.h"
#include "ops/selective_scan/scan-inl.h"
#include "ops/selective_scan/selective_scan.h"

namespace spillway::ops {
namespace {

constexpr int kWarps = kScanThreads / cuda::kWarp;

// A channel; threads past the last one compute one of zeros. Only the gradient has sums.
struct ThreadColumn {
  int64_t channel, channels;
  float* sums;      // [T, 2 N]: db and dc over the channels of the block
  float* of_warps;  // shared: [warps, 2 N], of one token
  int64_t state;

  template <typename U>
  [[nodiscard]] __device__ float take(const U* row) const {
    return channel < channels ? to_float(row[channel]) : 0.0f;
  }
  template <typename U>
  __device__ void put(float number, U* row) const {
    if (channel < channels) row[channel] = cuda::from_float<U>(number);
  }
  [[nodiscard]] __device__ float take_turned(const float* rows, int64_t n, int64_t i) const {
    return channel < channels ? rows[channel * n + i] : 0.0f;
  }
  __device__ void put_turned(float number, float* rows, int64_t n, int64_t i) const {
    if (channel < channels) rows[channel * n + i] = number;
  }
  [[nodiscard]] __device__ float get(const float* at) const { return *at; }
  __device__ void set(float number, float* at) const { *at = number; }

  __device__ void add(int64_t, int64_t i, float db, float dc) const {
    db = cuda::warp_reduce(db, cuda::Sum());
    dc = cuda::warp_reduce(dc, cuda::Sum());
    if (cuda::lane_index() != 0) return;
    float* const own = of_warps + cuda::warp_index() * 2 * state;
    own[i] = db;
    own[state + i] = dc;
  }
  __device__ void end_token(int64_t token) const {
    __syncthreads();
    for (int64_t i = threadIdx.x; i < 2 * state; i += kScanThreads) {
      float sum = 0;
      for (int warp = 0; warp < kWarps; ++warp) sum += of_warps[warp * 2 * state + i];
      sums[token * 2 * state + i] = sum;
    }
    __syncthreads();  // of_warps may be written again
  }
};

// Returns the scratch of this thread in its block's memory.
__device__ ScanScratch scratch_of_thread(int64_t state, float* memory, int64_t block_floats) {
  return {state, memory + blockIdx.x * block_floats + threadIdx.x, kScanThreads};
}

template <typename T>
__global__ void __launch_bounds__(kScanThreads)
    scan_kernel(ScanSizes sizes, ScanStream<T> stream, ChunkedSequences sequences, float* memory, int64_t block_floats,
                int64_t channel_blocks, int64_t units, T* y) {
  const ScanScratch scratch = scratch_of_thread(sizes.state, memory, block_floats);
  for (int64_t unit = blockIdx.x; unit < channel_blocks * sequences.count; unit += units) {
    ThreadColumn column{unit % channel_blocks * kScanThreads + threadIdx.x, sizes.channels, nullptr, nullptr,
                        sizes.state};
    const int64_t sequence = unit / channel_blocks;
    ColumnScan<ThreadColumn, T>(column, sizes, stream, scratch)
        .forward(sequences.begin(sequence), sequences.end(sequence), y);
  }
}

template <typename T>
__global__ void __launch_bounds__(kScanThreads)
    scan_grad_kernel(ScanSizes sizes, ScanStream<T> stream, ChunkedSequences sequences, float* memory,
                     int64_t block_floats, float* drates) {
  __shared__ float of_warps[kWarps * 2 * kMaxScanState];
  const ScanScratch scratch = scratch_of_thread(sizes.state, memory, block_floats);
  ThreadColumn column{int64_t{blockIdx.x} * kScanThreads + threadIdx.x, sizes.channels,
                      stream.partial + int64_t{blockIdx.x} * sizes.tokens * 2 * sizes.state, of_warps, sizes.state};
  ColumnScan<ThreadColumn, T>(column, sizes, stream, scratch).gradient(sequences, drates);
}

// Uses a block for each token.
template <typename T>
__global__ void __launch_bounds__(kScanThreads)
    token_gradients_kernel(ScanSizes sizes, const float* partial, int64_t blocks, T* db, T* dc) {
  const int64_t width = 2 * sizes.state, token = blockIdx.x;
  for (int64_t i = threadIdx.x; i < width; i += kScanThreads) {
    float sum = 0;
    for (int64_t block = 0; block < blocks; ++block) sum += partial[(block * sizes.tokens + token) * width + i];
    T* const to = i < sizes.state ? db + i : dc + i - sizes.state;
    to[token * sizes.state] = cuda::from_float<T>(sum);
  }
}

template <typename T>
__global__ void __launch_bounds__(kScanThreads)
    scan_steps_kernel(ScanSizes sizes, ScanStream<T> stream, const int32_t* slots, const int32_t* positions,
                      int64_t rows, float* memory, int64_t block_floats, float* states, T* y) {
  const ScanScratch scratch = scratch_of_thread(sizes.state, memory, block_floats);
  ThreadColumn column{int64_t{blockIdx.x} * kScanThreads + threadIdx.x, sizes.channels, nullptr, nullptr, sizes.state};
  ColumnScan<ThreadColumn, T> scan(column, sizes, stream, scratch);
  for (int64_t t = 0; t < sizes.tokens; ++t) {
    cuda::require(slots[t] >= 0 && slots[t] < rows);
    scan.step(t, positions[t] == 0, states + slots[t] * sizes.state * sizes.channels, y);
  }
}

}  // namespace

void selective_scan_cuda(const KernelArgs& args) {
  const ScanSizes sizes(args);
  const ChunkedSequences sequences(args.inputs[selective_scan_op::kSeqOffsets], sizes.tokens);
  const int64_t units = scan_gpu_units(sizes.channels, sequences.count);
  with_real(args.inputs[selective_scan_op::kX].dtype, [&]<typename T>(T*) {
    cuda::launch(scan_kernel<T>, {units, kScanThreads}, args.stream, sizes, ScanStream<T>(args), sequences,
                 reinterpret_cast<float*>(args.workspace), scan_gpu_block_floats(sizes, false),
                 scan_gpu_blocks(sizes.channels), units, args.outputs[0].as<T>());
  });
}

void selective_scan_grad_cuda(const KernelArgs& args) {
  const ScanSizes sizes(args);
  const ChunkedSequences sequences(args.inputs[selective_scan_op::kSeqOffsets], sizes.tokens);
  const int64_t blocks = scan_gpu_blocks(sizes.channels);
  with_real(args.inputs[selective_scan_op::kX].dtype, [&]<typename T>(T*) {
    const ScanStream<T> stream(args, sizes);
    cuda::launch(scan_grad_kernel<T>, {blocks, kScanThreads}, args.stream, sizes, stream, sequences,
                 stream.partial + sizes.partial_floats(blocks), scan_gpu_block_floats(sizes, true),
                 args.outputs[selective_scan_op::kRates].as<float>());
    cuda::launch(token_gradients_kernel<T>, {sizes.tokens, kScanThreads}, args.stream, sizes, stream.partial, blocks,
                 args.outputs[selective_scan_op::kB].as<T>(), args.outputs[selective_scan_op::kC].as<T>());
  });
}

void cached_selective_scan_cuda(const KernelArgs& args) {
  using namespace cached_selective_scan_op;
  const ScanSizes sizes(args);
  const TensorView& state = args.outputs[1];
  cuda::copy_bytes(args.inputs[kState].data, state.data, state.bytes(), args.stream);
  with_real(args.inputs[selective_scan_op::kX].dtype, [&]<typename T>(T*) {
    cuda::launch(scan_steps_kernel<T>, {scan_gpu_blocks(sizes.channels), kScanThreads}, args.stream, sizes,
                 ScanStream<T>(args), args.inputs[kSlots].as<int32_t>(), args.inputs[kPositions].as<int32_t>(),
                 state.shape[0], reinterpret_cast<float*>(args.workspace), scan_gpu_block_floats(sizes, false),
                 state.as<float>(), args.outputs[0].as<T>());
  });
}

}  // namespace spillway::ops
