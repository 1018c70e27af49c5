// The frame of an update on a GPU whose moments are codes: a warp for a block. Files that use it are compiled without
// fusing, so that the bits are the CPU's.
#pragma once

#include "backend/cuda/launch.cuh"
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/vector.cuh"
#include "ops/optimizers/block_update.h"
#include "ops/optimizers/update.cuh"
#include "ops/real.h"
#include "ops/row_slice.cuh"

namespace spillway::ops {

constexpr int kBlockUpdateWarps = 8, kBlocksOfWarp = 4;
constexpr int kBlockLane = static_cast<int>(kStateBlock) / cuda::kWarp;  // elements of a lane

// A map by value, since a kernel cannot follow a pointer of the host's.
struct CodesOnGpu {
  float values[256];
  int bits;
  bool is_signed;
  CodeRule rule;
};
inline CodesOnGpu codes_on_gpu(const BlockCodes& codes) {
  CodesOnGpu result{.values = {}, .bits = codes.bits, .is_signed = codes.is_signed, .rule = codes.rule};
  std::copy_n(codes.values, codes.count(), result.values);
  return result;
}

// The tables in shared memory: the values, and the largest numbers of all codes but the last.
struct CodeTables {
  float values[256], bounds[256];
};

__device__ inline void fill_tables(const CodesOnGpu& codes, CodeTables& tables) {
  const int count = 1 << codes.bits;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    tables.values[i] = codes.values[i];
    if (i + 1 < count) tables.bounds[i] = upper_bound_of(codes.values, i, codes.rule);
  }
}

// Returns how many bounds lie below x; 0 for NaN.
__device__ inline int code_of(const CodeTables& tables, int bits, float x) {
  int code = 0;
  for (int step = 1 << (bits - 1); step > 0; step /= 2) code += x > tables.bounds[code + step - 1] ? step : 0;
  return code;
}

// Loads the codes of a lane: kBlockLane neighbours, of which `count` are there.
__device__ inline void load_codes(const uint8_t* block, int bits, int first, int count, int* codes) {
#pragma unroll
  for (int i = 0; i < kBlockLane; ++i) {
    const int at = first + i;
    codes[i] = i >= count ? 0 : bits == 8 ? block[at] : at % 2 == 0 ? block[at / 2] >> 4 : block[at / 2] & 15;
  }
}
__device__ inline void store_codes(uint8_t* block, int bits, int first, int count, const int* codes) {
#pragma unroll
  for (int i = 0; i < kBlockLane; ++i) {
    if (i >= count) continue;
    const int at = first + i;
    if (bits == 8) {
      block[at] = static_cast<uint8_t>(codes[i]);
    } else if (at % 2 == 0) {
      block[at / 2] = static_cast<uint8_t>(codes[i] << 4 | (i + 1 < count ? codes[i + 1] : 0));
    }
  }
}

struct MaxInt {
  __device__ int operator()(int a, int b) const { return a > b ? a : b; }
};

template <typename Formula, typename Gradient>
struct BlockUpdateBody {
  static constexpr int kStates = Formula::kStates;
  BlockViews<kStates> views;
  const Gradient* gradient;
  const float* clip;  // null: 1
  FormulaOfStep<Formula> step;

  // Called by every lane of a warp. REQUIRES: the block is there.
  __device__ void operator()(int64_t block, const CodesOnGpu* codes, const CodeTables* tables) const {
    const Formula formula = step.get();
    const float factor = clip != nullptr ? *clip : 1.0F;
    const int64_t begin = block * kStateBlock;
    const ElementRange& slice = views.weights.slice;
    const int block_count = static_cast<int>(std::min(int64_t{kStateBlock}, slice.end - slice.begin - begin));
    const int first = cuda::lane_index() * kBlockLane;
    const int count = std::clamp(block_count - first, 0, int{kBlockLane});
    float state[kBlockLane][kStates] = {};
#pragma unroll
    for (int s = 0; s < kStates; ++s) {
      int lane_codes[kBlockLane];
      load_codes(views.codes_in[s] + begin * codes[s].bits / 8, codes[s].bits, first, count, lane_codes);
      const float absmax = views.absmax_in[s][block];
#pragma unroll
      for (int i = 0; i < kBlockLane; ++i) state[i][s] = tables[s].values[lane_codes[i]] * absmax;
    }
    if (count > 0) update_weights(formula, factor, {begin + first, count}, state);
#pragma unroll
    for (int s = 0; s < kStates; ++s) encode(s, block, first, count, codes[s], tables[s], state);
  }

 private:
  __device__ void update_weights(const Formula& formula, float factor, cuda::Span<kBlockLane> span,
                                 float (*state)[kStates]) const {
    cuda::Floats<kBlockLane> p = cuda::load(views.weights.p_in, span);
    const cuda::Floats<kBlockLane> gradients = cuda::load(gradient, span);
#pragma unroll
    for (int i = 0; i < kBlockLane; ++i) p[i] = formula(p[i], gradients[i] * factor, state[i]);
    cuda::store(p, views.weights.p, span);
    if (views.weights.copy != nullptr) cuda::store(p, views.weights.copy, span);
  }

  __device__ void encode(int s, int64_t block, int first, int count, const CodesOnGpu& codes, const CodeTables& tables,
                         const float (*state)[kStates]) const {
    int largest = 0;  // of magnitudes as integers, in which NaN is the largest
#pragma unroll
    for (int i = 0; i < kBlockLane; ++i) {
      if (i < count) largest = MaxInt()(largest, static_cast<int>(std::bit_cast<uint32_t>(state[i][s]) & 0x7FFFFFFF));
    }
    largest = cuda::warp_reduce(largest, MaxInt());
    const float absmax = std::bit_cast<float>(largest > 0x7F800000 ? 0x7FC00000 : largest);
    const BlockScale scale = block_scale(absmax, codes.rule);
    int lane_codes[kBlockLane];
#pragma unroll
    for (int i = 0; i < kBlockLane; ++i) {
      lane_codes[i] = code_of(tables, codes.bits, (state[i][s] + 0.0F) / scale.divisor);
    }
    store_codes(views.codes[s] + block * kStateBlock * codes.bits / 8, codes.bits, first, count, lane_codes);
    if (cuda::lane_index() == 0) views.absmax[s][block] = scale.stored;
  }
};

template <int kStates>
struct AllCodesOnGpu {
  CodesOnGpu of[kStates];
};

template <int kStates, typename Body>
__global__ void __launch_bounds__(kBlockUpdateWarps* cuda::kWarp)
    block_update_kernel(int64_t blocks, AllCodesOnGpu<kStates> codes, Body body) {
  __shared__ CodeTables tables[kStates];
  for (int s = 0; s < kStates; ++s) fill_tables(codes.of[s], tables[s]);
  __syncthreads();
  const int64_t first = (int64_t{blockIdx.x} * kBlockUpdateWarps + cuda::warp_index()) * kBlocksOfWarp;
  for (int64_t block = first; block < std::min(first + kBlocksOfWarp, blocks); ++block) body(block, codes.of, tables);
}

template <typename Formula>
void run_block_update(const KernelArgs& args, const std::array<BlockCodes, Formula::kStates>& codes) {
  constexpr int kStates = Formula::kStates;
  const BlockViews<kStates> views(args);
  const ElementRange& slice = views.weights.slice;
  copy_other_rows(args.inputs[update_input::kWeight], args.outputs[0], slice, args.stream);
  const TensorView& gradients = args.inputs[update_input::kGradient];
  const FormulaOfStep<Formula> step(args);
  AllCodesOnGpu<kStates> tables;
  for (size_t s = 0; s < kStates; ++s) tables.of[s] = codes_on_gpu(codes[s]);
  with_real(gradients.dtype, [&]<typename T>(T*) {
    using Body = BlockUpdateBody<Formula, T>;
    const Body body{views, gradients.as<T>() + slice.begin, args.inputs[update_input::kClip].as<float>(), step};
    constexpr int64_t kBlocks = int64_t{kBlockUpdateWarps} * kBlocksOfWarp;
    cuda::launch(block_update_kernel<kStates, Body>,
                 {div_ceil(views.blocks(), kBlocks), kBlockUpdateWarps * cuda::kWarp}, args.stream, views.blocks(),
                 tables, body);
  });
}

}  // namespace spillway::ops
