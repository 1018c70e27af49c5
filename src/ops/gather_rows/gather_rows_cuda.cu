// The kernel is bound by memory: it writes k rows for each that it reads. Not yet measured.
#include "backend/cuda/launch.cuh"
#include "backend/cuda/vector.cuh"
#include "backend/kernel.h"
#include "ops/gather_rows/operands.h"
#include "ops/real.h"

namespace spillway::ops {
namespace {

// Uses a block for each row that is written.
template <typename T>
__global__ void gather_rows_kernel(const T* x, const int32_t* order, int64_t k, int64_t tokens, int64_t width, T* out) {
  constexpr int kWidth = cuda::kVector<T>;
  const int64_t place = blockIdx.x, token = order[place] / k;
  cuda::require(token >= 0 && token < tokens);
  cuda::for_each_vector<kWidth>(width, threadIdx.x, blockDim.x, [&](cuda::Span<kWidth> span) {
    cuda::store(cuda::load(x + token * width, span), out + place * width, span);
  });
}

}  // namespace

void gather_rows_cuda(const KernelArgs& args) {
  using namespace gather_rows_op;
  const TensorView &x = args.inputs[kX], &order = args.inputs[kOrder];
  const int64_t width = x.shape[1];
  with_real(x.dtype, [&]<typename T>(T*) {
    cuda::launch(gather_rows_kernel<T>, {order.elems(), cuda::threads_for(div_ceil(width, int64_t{cuda::kVector<T>}))},
                 args.stream, x.as<T>(), order.as<int32_t>(), order.shape[1], x.shape[0], width,
                 args.outputs[0].as<T>());
  });
}

}  // namespace spillway::ops
