// The last step of a modulation's gradient on the GPU.
#pragma once

#include "backend/cuda/launch.cuh"
#include "backend/cuda/vector.cuh"
#include "ops/modulation/token_blocks.h"

namespace spillway::ops {

// The parts that have a gradient, two at most: their numbers, or -1, and the sums of their blocks, f32 [blocks, width].
struct PartSums {
  int64_t part = -1;
  const float* sums = nullptr;
};

// Uses a thread for each number: out = addend (if there is one), to which the sequence's blocks are added in order.
constexpr int kAddPartsThreads = 256;
static __global__ void __launch_bounds__(kAddPartsThreads)
    add_parts_kernel(ModulationRows modulation, PartSums first, PartSums second, const float* addend, float* out,
                     int64_t elems) {
  const int64_t i = int64_t{blockIdx.x} * kAddPartsThreads + threadIdx.x;
  if (i >= elems) return;
  const int64_t row = i / modulation.row_width, column = i % modulation.row_width;
  const int64_t part = column / modulation.width;
  float sum = addend == nullptr ? 0.0f : addend[i];
  const float* sums = part == first.part ? first.sums : part == second.part ? second.sums : nullptr;
  if (sums != nullptr) {
    const int64_t begin = modulation.blocks.first_block(row), end = begin + modulation.blocks.blocks_of(row);
    for (int64_t block = begin; block < end; ++block) sum += sums[block * modulation.width + column % modulation.width];
  }
  out[i] = sum;
}

inline void add_parts(const ModulationRows& modulation, const PartSums& first, const PartSums& second,
                      const TensorView& addend, const TensorView& out, void* stream) {
  cuda::launch(add_parts_kernel, {div_ceil(out.elems(), kAddPartsThreads), kAddPartsThreads}, stream, modulation, first,
               second, addend.as<float>(), out.as<float>(), out.elems());
}

}  // namespace spillway::ops
