// Does step 3 of the order in ops/squared_norm/order.h on a GPU, for every kernel that adds up sums.
#pragma once

#include "backend/cuda/launch.cuh"
#include "ops/squared_norm/order.h"

namespace spillway::ops {

template <typename Finish>
__global__ void __launch_bounds__(kNormTotalSums) total_kernel(const float* partial, int64_t count, Finish finish) {
  __shared__ double sums[kNormTotalSums];
  const int thread = static_cast<int>(threadIdx.x);
  double sum = 0;
  for (int64_t i = thread; i < count; i += kNormTotalSums) sum += partial[i];
  sums[thread] = sum;
  for (int half = kNormTotalSums / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) sums[thread] += sums[thread + half];
  }
  if (thread == 0) finish(sums[0]);
}

// Calls finish(the sum of `partial`) on one thread.
template <typename Finish>
void add_total(const float* partial, int64_t count, const Finish& finish, void* stream) {
  cuda::launch(total_kernel<Finish>, {1, kNormTotalSums}, stream, partial, count, finish);
}

}  // namespace spillway::ops
