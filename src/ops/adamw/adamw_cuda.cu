// Bound by memory: 28 bytes per parameter with f32 gradients and a bf16 working copy (read p, m, v, g; write p, m, v
// and the copy), behind a launch of one thread. Not yet measured.
//
// Compiled without fusing, so that the bits are those of adamw_cpu.cc.
#include <cmath>

#include "backend/cuda/map.cuh"
#include "backend/kernel.h"
#include "ops/adamw/numbers.h"
#include "ops/real.h"
#include "ops/row_slice.cuh"

namespace spillway::ops {
namespace {

// By one thread, since most GPUs have next to no f64. `clip`: null is 1.
__global__ void __launch_bounds__(cuda::kWarp)
    adamw_numbers_kernel(AdamwOptions options, const float* learning_rate, const int32_t* step, const float* clip,
                         AdamwNumbers* numbers) {
  if (threadIdx.x == 0) *numbers = adamw_numbers(options, *learning_rate, *step, clip != nullptr ? *clip : 1.0f);
}

template <typename Gradient>
struct Adamw {
  static constexpr int kWidth = cuda::kVector<float, Gradient>;
  const AdamwNumbers* numbers;
  const float *p_in, *m_in, *v_in;
  const Gradient* gradient;
  float *p, *m, *v;
  bf16* copy;  // gets p rounded; null where p is the weight

  __device__ void operator()(cuda::Span<kWidth> span) const {
    using cuda::load, cuda::store;
    const AdamwNumbers n = *numbers;
    cuda::Floats<kWidth> next_p = load(p_in, span), next_m = load(m_in, span), next_v = load(v_in, span);
    const cuda::Floats<kWidth> gradients = load(gradient, span);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float g = gradients[i] * n.clip;
      next_m[i] = next_m[i] + (g - next_m[i]) * n.one_minus_beta1;
      next_v[i] = next_v[i] * n.beta2 + g * g * n.one_minus_beta2;
      const float denominator = sqrtf(next_v[i]) * n.inverse_root_correction + n.eps;
      next_p[i] = next_p[i] * n.decay + n.minus_step_size * (next_m[i] / denominator);
    }
    store(next_p, p, span);
    store(next_m, m, span);
    store(next_v, v, span);
    if (copy != nullptr) store(next_p, copy, span);
  }
};

}  // namespace

void adamw_cuda(const KernelArgs& args) {
  const TensorView &weight_in = args.inputs[0], &weight = args.outputs[0], &master = args.inputs[7];
  const bool has_master = master.data != nullptr;
  const ElementRange slice = elements_of(slice_of(args.attributes), weight.shape);
  copy_other_rows(weight_in, weight, slice, args.stream);
  auto* numbers = reinterpret_cast<AdamwNumbers*>(args.workspace);
  cuda::launch(adamw_numbers_kernel, {1, cuda::kWarp}, args.stream, adamw_options(args.attributes),
               args.inputs[4].as<float>(), args.inputs[5].as<int32_t>(), args.inputs[6].as<float>(), numbers);
  with_real(args.inputs[3].dtype, [&]<typename T>(T*) {
    const Adamw<T> body{.numbers = numbers,
                        .p_in = has_master ? master.as<float>() : weight_in.as<float>() + slice.begin,
                        .m_in = args.inputs[1].as<float>(),
                        .v_in = args.inputs[2].as<float>(),
                        .gradient = args.inputs[3].as<T>() + slice.begin,
                        .p = has_master ? args.outputs[3].as<float>() : weight.as<float>() + slice.begin,
                        .m = args.outputs[1].as<float>(),
                        .v = args.outputs[2].as<float>(),
                        .copy = has_master ? weight.as<bf16>() + slice.begin : nullptr};
    cuda::map(slice.end - slice.begin, body, args.stream);
  });
}

}  // namespace spillway::ops
