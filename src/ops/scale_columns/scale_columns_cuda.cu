// The kernels are bound by memory. Forward: x, and the addend where there is one, are read and the result is written (4
// or 6 bytes per element in bf16). Backward: x and dy are read and dx is written (6 bytes), the factor's gradient comes
// out of the same pass. Not yet measured.
#include "backend/kernel.h"
#include "ops/column_sums.cuh"
#include "ops/scale_columns/operands.h"

namespace spillway::ops {

using namespace scale_columns_op;

namespace {

constexpr int kThreads = 256;

// Uses a block for each row. The factor, the bias and the addend are null where they are absent.
template <typename T, typename Bias>
__global__ void scale_columns_kernel(const T* x, const float* factor, float shift, const Bias* bias, const T* addend,
                                     T* out, int64_t width) {
  constexpr int kWidth = cuda::kVector<T, Bias>;
  const int64_t at = blockIdx.x * width;
  cuda::for_each_vector<kWidth>(width, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x),
                                [&](cuda::Span<kWidth> span) {
                                  cuda::Floats<kWidth> v = cuda::load(x + at, span), f = {}, b = {}, a = {};
                                  if (factor != nullptr) f = cuda::load(factor, span);
                                  if (bias != nullptr) b = cuda::load(bias, span);
                                  if (addend != nullptr) a = cuda::load(addend + at, span);
#pragma unroll
                                  for (int i = 0; i < kWidth; ++i) {
                                    if (factor != nullptr) v[i] *= f[i] + shift;
                                    if (bias != nullptr) v[i] += b[i];
                                    if (addend != nullptr) v[i] += a[i];
                                  }
                                  cuda::store(v, out + at, span);
                                });
}

// Uses a block of threads for each block of rows: a thread has the same columns of all of them. `sums` is null if the
// factor's gradient is not wanted.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    scale_columns_grad_kernel(const T* x, const T* dy, const float* factor, float shift, int64_t rows, int64_t width,
                              int64_t block_rows, T* dx, float* sums) {
  constexpr int kWidth = cuda::kVector<T>;
  const int64_t begin = blockIdx.x * block_rows, end = std::min(rows, begin + block_rows);
  cuda::for_each_vector<kWidth>(width, static_cast<int>(threadIdx.x), kThreads, [&](cuda::Span<kWidth> span) {
    cuda::Floats<kWidth> sum = {}, f = {};
    if (factor != nullptr) f = cuda::load(factor, span);
    for (int64_t at = begin * width; at < end * width; at += width) {
      const cuda::Floats<kWidth> v = cuda::load(x + at, span);
      cuda::Floats<kWidth> d = cuda::load(dy + at, span);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        sum[i] += v[i] * d[i];
        if (factor != nullptr) d[i] *= f[i] + shift;
      }
      cuda::store(d, dx + at, span);
    }
    if (sums != nullptr) cuda::store(sum, sums + blockIdx.x * width, span);
  });
}

}  // namespace

void scale_columns_cuda(const KernelArgs& args) {
  const TensorView &x = args.inputs[kX], &bias = args.inputs[kBias], &out = args.outputs[0];
  const int64_t width = x.shape[1];
  with_real(x.dtype, [&]<typename T>(T*) {
    with_real(bias.data == nullptr ? DType::kF32 : bias.dtype, [&]<typename Bias>(Bias*) {
      const int threads = cuda::threads_for(div_ceil(width, cuda::kVector<T, Bias>));
      cuda::launch(scale_columns_kernel<T, Bias>, {x.shape[0], threads}, args.stream, x.as<T>(),
                   args.inputs[kFactor].as<float>(), static_cast<float>(args.attributes.real("shift")), bias.as<Bias>(),
                   args.inputs[kAddend].as<T>(), out.as<T>(), width);
    });
  });
}

void scale_columns_grad_cuda(const KernelArgs& args) {
  const TensorView &x = args.inputs[kX], &dy = args.inputs[kDy];
  const bool wants_factor = args.attributes.integer("wants_factor") != 0;
  const int64_t rows = x.shape[0], width = x.shape[1], block_rows = rows_of_block(rows);
  const int64_t blocks = div_ceil(rows, block_rows);
  auto* const partial = wants_factor ? reinterpret_cast<float*>(args.workspace) : nullptr;
  with_real(x.dtype, [&]<typename T>(T*) {
    cuda::launch(scale_columns_grad_kernel<T>, {blocks, kThreads}, args.stream, x.as<T>(), dy.as<T>(),
                 args.inputs[kFactor].as<float>(), static_cast<float>(args.attributes.real("shift")), rows, width,
                 block_rows, args.outputs[0].as<T>(), partial);
  });
  if (wants_factor) add_blocks(partial, blocks, args.inputs[kFactorAddend], args.outputs[1], args.stream);
}

}  // namespace spillway::ops
