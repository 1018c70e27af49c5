// Elementwise kernels: a thread for every vector of elements.
//
// A body is a struct of pointers and numbers with the width of its vectors and the operation on one of them:
//
//   template <typename T>
//   struct Double {
//     static constexpr int kWidth = cuda::kVector<T>;
//     const T* x;
//     T* y;
//     __device__ void operator()(cuda::Span<kWidth> span) const {
//       auto v = cuda::load(x, span);
//       for (int i = 0; i < kWidth; ++i) v[i] *= 2;
//       cuda::store(v, y, span);
//     }
//   };
//   cuda::map(x.elems(), Double<T>{x.as<T>(), y.as<T>()}, args.stream);
//
// A thread reads all of its elements before it writes any, so outputs may take the places of inputs.
#pragma once

#include "backend/cuda/launch.cuh"
#include "backend/cuda/vector.cuh"

namespace spillway::cuda {

constexpr int kMapThreads = 256;

template <typename Body>
__global__ void __launch_bounds__(kMapThreads) map_kernel(int64_t elems, Body body) {
  const int64_t begin = (int64_t{blockIdx.x} * kMapThreads + threadIdx.x) * Body::kWidth;
  if (begin < elems) body(span_at<Body::kWidth>(begin, elems));
}

// Calls body for all vectors of [0, elems).
template <typename Body>
void map(int64_t elems, const Body& body, void* stream) {
  launch(map_kernel<Body>, {div_ceil(elems, int64_t{kMapThreads} * Body::kWidth), kMapThreads}, stream, elems, body);
}

}  // namespace spillway::cuda
