// The gradients of attention in bf16 on sm_90a, by warpgroups, at some three times the speed of
// attention_tensor_cores.h, which other GPUs use. The roundings are the same, and equal inputs give equal bits here,
// too; but not those of the other kernels, whose sums are in another order.
#pragma once

#include "ops/attention/cuda/kernels.h"
#include "ops/attention/cuda/problem.cuh"

namespace spillway::cuda {

// Returns true if the kernels support such an attention, on the GPU in use and in this build: takes_tensor_cores(args),
// and heads of at most 128. The driver answers from memory.
[[nodiscard]] bool takes_warpgroups(const AttentionArgs& args);

// Computes dq, dk and dv; delta is there already. REQUIRES: takes_warpgroups(args).
void launch_warpgroup_gradients(const AttentionArgs& args, const GradProblem<bf16>& problem, void* stream);

}  // namespace spillway::cuda
