// Attention in bf16 on tensor cores, forward and backward, by our own kernels; attention_kernels.cu computes every
// other case in f32. Weights of the softmax and gradients of scores are rounded to bf16 for the products with them, and
// sums are f32, as in the CPU's kernels. Each row sums over its tiles in their order: equal inputs give equal bits.
#pragma once

#include "ops/attention/cuda/kernels.h"
#include "ops/attention/cuda/problem.cuh"

namespace spillway::cuda {

// Returns true if the kernels support such an attention: bf16, whole pieces of 16 bytes a head.
[[nodiscard]] inline bool takes_tensor_cores(const AttentionArgs& args) {
  constexpr int64_t kPieceElems = 8;
  return args.dtype == DType::kBF16 && args.head_size % kPieceElems == 0 && args.head_size <= kMaxAttentionHead;
}

// Computes o and lse. REQUIRES, for both: takes_tensor_cores(args).
void launch_tensor_core_forward(const AttentionArgs& args, const Problem<bf16>& problem, void* stream);
// Computes dq, dk and dv; delta is there already.
void launch_tensor_core_gradients(const AttentionArgs& args, const GradProblem<bf16>& problem, void* stream);

}  // namespace spillway::cuda
