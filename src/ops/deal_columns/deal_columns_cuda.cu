// The kernels are bound by memory: every element is read and written once. Not yet measured.
#include "backend/cuda/kernel.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/kernel.h"
#include "ops/deal_columns/places.h"
#include "ops/real.h"

namespace spillway::ops {
namespace {

// Uses a block for each row of a piece.
template <typename T>
__global__ void deal_kernel(const T* x, T* pieces, DealtPlaces places) {
  const int64_t rank = blockIdx.x / places.rows, t = blockIdx.x % places.rows;
  T* const to = pieces + places.row_of_piece(rank, t);
  for (int64_t i = threadIdx.x; i < places.piece_width; i += blockDim.x) {
    const int64_t block = places.block_of(rank, i / places.block);
    to[i] =
        block < places.blocks ? x[t * places.width + block * places.block + i % places.block] : cuda::from_float<T>(0);
  }
}

// Uses a block for each row of the matrix.
template <typename T>
__global__ void collect_kernel(const T* pieces, T* out, DealtPlaces places) {
  const int64_t t = blockIdx.x;
  for (int64_t i = threadIdx.x; i < places.width; i += blockDim.x) {
    const int64_t block = i / places.block, column = i % places.block;
    if (places.spread == 1) {
      out[t * places.width + i] = pieces[places.copy_of(t, block, 0) + column];
      continue;
    }
    float sum = 0;
    for (int64_t copy = 0; copy < places.spread; ++copy)
      sum += to_float(pieces[places.copy_of(t, block, copy) + column]);
    out[t * places.width + i] = cuda::from_float<T>(sum);
  }
}

}  // namespace

void deal_columns_cuda(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &out = args.outputs[0];
  const DealtPlaces places(deal_of(args.attributes), x, out);
  with_real(x.dtype, [&]<typename T>(T*) {
    cuda::launch(deal_kernel<T>, {places.ranks * places.rows, cuda::threads_for(places.piece_width)}, args.stream,
                 static_cast<const T*>(x.as<T>()), out.as<T>(), places);
  });
}

void collect_columns_cuda(const KernelArgs& args) {
  const TensorView &pieces = args.inputs[0], &out = args.outputs[0];
  const DealtPlaces places(deal_of(args.attributes), out, pieces);
  with_real(out.dtype, [&]<typename T>(T*) {
    cuda::launch(collect_kernel<T>, {places.rows, cuda::threads_for(places.width)}, args.stream,
                 static_cast<const T*>(pieces.as<T>()), out.as<T>(), places);
  });
}

}  // namespace spillway::ops
