// The kernels are bound by memory. Forward: x is read and the result is written (4 bytes per element in bf16).
// Backward: x and dy are read and dx is written (6 bytes); the sums for the trained numbers come out of the same pass,
// one pair for each row, which a single block adds up. Not yet measured.
#include "backend/cuda/map.cuh"
#include "backend/cuda/reduce.cuh"
#include "backend/kernel.h"
#include "ops/real.h"
#include "ops/xielu/formula-inl.h"
#include "ops/xielu/operands.h"

namespace spillway::ops {

using namespace xielu_op;

namespace {

constexpr int kThreads = 256;

// The numbers of the activation in device memory.
template <typename Alpha>
struct DeviceNumbers {
  const Alpha *alpha_p, *alpha_n;
  const float *beta, *eps;

  __device__ Xielu formula() const { return Xielu::of(to_float(*alpha_p), to_float(*alpha_n), *beta, *eps); }
};

template <typename Alpha>
DeviceNumbers<Alpha> numbers_of(const KernelArgs& args) {
  return {args.inputs[kAlphaP].as<Alpha>(), args.inputs[kAlphaN].as<Alpha>(), args.inputs[kBeta].as<float>(),
          args.inputs[kEps].as<float>()};
}

template <typename T, typename Alpha>
struct XieluForward {
  static constexpr int kWidth = cuda::kVector<T>;
  const T* x;
  T* out;
  DeviceNumbers<Alpha> numbers;

  __device__ void operator()(cuda::Span<kWidth> span) const {
    const Xielu formula = numbers.formula();
    cuda::Floats<kWidth> v = cuda::load(x, span);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) v[i] = formula.value(v[i]);
    cuda::store(v, out, span);
  }
};

// Uses a block for each row. `sums` [rows, 2] is null if the gradients of the trained numbers are not wanted.
template <typename T, typename Alpha>
__global__ void __launch_bounds__(kThreads)
    xielu_grad_kernel(const T* x, const T* dy, DeviceNumbers<Alpha> numbers, int64_t width, T* dx, float* sums) {
  constexpr int kWidth = cuda::kVector<T>;
  const Xielu formula = numbers.formula();
  const int64_t at = blockIdx.x * width;
  float p = 0, n = 0;
  cuda::for_each_vector<kWidth>(width, static_cast<int>(threadIdx.x), kThreads, [&](cuda::Span<kWidth> span) {
    const cuda::Floats<kWidth> v = cuda::load(x + at, span);
    cuda::Floats<kWidth> d = cuda::load(dy + at, span);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      p += Xielu::of_p(v[i]) * d[i];
      n += formula.of_n(v[i]) * d[i];
      d[i] *= formula.slope(v[i]);
    }
    cuda::store(d, dx + at, span);
  });
  if (sums == nullptr) return;
  p = cuda::block_sum<kThreads>(p);
  n = cuda::block_sum<kThreads>(n);
  if (threadIdx.x != 0) return;
  sums[2 * blockIdx.x] = p;
  sums[2 * blockIdx.x + 1] = n;
}

// Adds up the rows' sums. `addend` is null if there is none.
template <typename D>
__device__ void write_alpha(double sum, float slope, const D* addend, D* out) {
  const float more = addend == nullptr ? 0 : to_float(*addend);
  *out = cuda::from_float<D>(more + static_cast<float>(sum * double{slope}));
}

template <typename Alpha, typename P, typename N>
__global__ void __launch_bounds__(kThreads)
    xielu_alphas_kernel(const float* sums, int64_t rows, DeviceNumbers<Alpha> numbers, const P* p_addend,
                        const N* n_addend, P* dalpha_p, N* dalpha_n) {
  double p = 0, n = 0;
  for (int64_t row = threadIdx.x; row < rows; row += kThreads) {
    p += double{sums[2 * row]};
    n += double{sums[2 * row + 1]};
  }
  p = cuda::block_sum<kThreads>(p);
  n = cuda::block_sum<kThreads>(n);
  if (threadIdx.x != 0) return;
  const Xielu formula = numbers.formula();
  write_alpha(p, formula.p_slope, p_addend, dalpha_p);
  write_alpha(n, formula.n_slope, n_addend, dalpha_n);
}

}  // namespace

void xielu_cuda(const KernelArgs& args) {
  const TensorView& x = args.inputs[kX];
  with_real(x.dtype, [&]<typename T>(T*) {
    with_real(args.inputs[kAlphaP].dtype, [&]<typename Alpha>(Alpha*) {
      cuda::map(x.elems(), XieluForward<T, Alpha>{x.as<T>(), args.outputs[0].as<T>(), numbers_of<Alpha>(args)},
                args.stream);
    });
  });
}

void xielu_grad_cuda(const KernelArgs& args) {
  const TensorView &x = args.inputs[kX], &dy = args.inputs[kDy];
  const int64_t rows = x.shape[0];
  const bool wants_alphas = args.attributes.integer("wants_alphas") != 0;
  auto* const sums = wants_alphas ? reinterpret_cast<float*>(args.workspace) : nullptr;
  with_real(args.inputs[kAlphaP].dtype, [&]<typename Alpha>(Alpha*) {
    with_real(x.dtype, [&]<typename T>(T*) {
      cuda::launch(xielu_grad_kernel<T, Alpha>, {rows, kThreads}, args.stream, x.as<T>(), dy.as<T>(),
                   numbers_of<Alpha>(args), x.shape[1], args.outputs[0].as<T>(), sums);
    });
    if (!wants_alphas) return;
    const TensorView &p = args.outputs[kDAlphaP], &n = args.outputs[kDAlphaN];
    with_real(p.dtype, [&]<typename P>(P*) {
      with_real(n.dtype, [&]<typename N>(N*) {
        cuda::launch(xielu_alphas_kernel<Alpha, P, N>, {1, kThreads}, args.stream, sums, rows, numbers_of<Alpha>(args),
                     args.inputs[kAlphaPAddend].as<P>(), args.inputs[kAlphaNAddend].as<N>(), p.as<P>(), n.as<N>());
      });
    });
  });
}

}  // namespace spillway::ops
