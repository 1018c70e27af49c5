// The gradients of attention in bf16 on sm_90a, by warpgroups: what attention_tensor_cores.h computes on other GPUs,
// at some three times its speed. The same roundings, and equal inputs give equal bits here, too; but not those of the
// other kernels, whose sums are in another order.
#pragma once

#include "ops/attention/cuda/kernels.h"
#include "ops/attention/cuda/problem.cuh"

namespace spillway::cuda {

// Whether the kernels are there for such an attention, on the GPU in use and in this build: takes_tensor_cores(args),
// and heads of at most 128. The driver answers from memory.
[[nodiscard]] bool takes_warpgroups(const AttentionArgs& args);

// dq, dk and dv; delta is there already. REQUIRES: takes_warpgroups(args).
void launch_warpgroup_gradients(const AttentionArgs& args, const GradProblem<bf16>& problem, void* stream);

}  // namespace spillway::cuda
