// The gradients of attention in bf16 on sm_90a, by warpgroups: what attention_tensor_cores.h computes on other GPUs,
// at some three times its speed. The same roundings, and equal inputs give equal bits here, too; but not those of the
// other kernels, whose sums are in another order.
#pragma once

#include "backend/cuda/attention_kernels.h"
#include "backend/cuda/attention_problem.cuh"

namespace spillway::cuda {

// Whether the GPU in use is an sm_90 and this build has code for it. The driver answers from memory.
[[nodiscard]] bool has_warpgroups();

// dq, dk and dv; delta is there already. REQUIRES: has_warpgroups() and has_tensor_core_gradients(args).
void launch_warpgroup_gradients(const AttentionArgs& args, const GradProblem<bf16>& problem, void* stream);

}  // namespace spillway::cuda
