// Bound by memory: 28 bytes a parameter with f32 gradients and a bf16 working copy (read p, m, v, g; write p, m, v and
// the copy). Not yet measured.
#include <cmath>

#include "backend/cuda/map.cuh"
#include "backend/kernel.h"
#include "ops/real.h"
#include "ops/row_slice.cuh"

namespace spillway::ops {
namespace {

template <typename Gradient>
struct Adamw {
  static constexpr int kWidth = cuda::kVector<float, Gradient>;
  const float *p_in, *m_in, *v_in;
  const Gradient* gradient;
  float *p, *m, *v;
  bf16* copy;         // gets p rounded; null where p is the weight
  const float* clip;  // null: 1
  const float* learning_rate;
  const int32_t* step;
  float one_minus_beta1, one_minus_beta2, beta2, log_beta1, log_beta2, eps, weight_decay;

  // 1 - beta^step, which f32 would cancel to nothing in the first steps.
  __device__ float correction(float log_beta) const { return -expm1f(static_cast<float>(*step) * log_beta); }

  __device__ void operator()(cuda::Span<kWidth> span) const {
    using cuda::load, cuda::store;
    const float rate = *learning_rate, factor = clip != nullptr ? *clip : 1.0f;
    const float decay = fmaf(-rate, weight_decay, 1.0f);
    const float step_size = rate / correction(log_beta1);
    const float inverse_root_correction = 1.0f / sqrtf(correction(log_beta2));
    cuda::Floats<kWidth> next_p = load(p_in, span), next_m = load(m_in, span), next_v = load(v_in, span);
    const cuda::Floats<kWidth> gradients = load(gradient, span);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float g = gradients[i] * factor;
      next_m[i] += (g - next_m[i]) * one_minus_beta1;
      next_v[i] = next_v[i] * beta2 + g * g * one_minus_beta2;
      const float denominator = sqrtf(next_v[i]) * inverse_root_correction + eps;
      next_p[i] = next_p[i] * decay - step_size * (next_m[i] / denominator);
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
  const double beta1 = args.attributes.real("beta1"), beta2 = args.attributes.real("beta2");
  with_real(args.inputs[3].dtype, [&]<typename T>(T*) {
    const Adamw<T> body{.p_in = has_master ? master.as<float>() : weight_in.as<float>() + slice.begin,
                        .m_in = args.inputs[1].as<float>(),
                        .v_in = args.inputs[2].as<float>(),
                        .gradient = args.inputs[3].as<T>() + slice.begin,
                        .p = has_master ? args.outputs[3].as<float>() : weight.as<float>() + slice.begin,
                        .m = args.outputs[1].as<float>(),
                        .v = args.outputs[2].as<float>(),
                        .copy = has_master ? weight.as<bf16>() + slice.begin : nullptr,
                        .clip = args.inputs[6].as<float>(),
                        .learning_rate = args.inputs[4].as<float>(),
                        .step = args.inputs[5].as<int32_t>(),
                        .one_minus_beta1 = static_cast<float>(1 - beta1),
                        .one_minus_beta2 = static_cast<float>(1 - beta2),
                        .beta2 = static_cast<float>(beta2),
                        .log_beta1 = static_cast<float>(std::log(beta1)),
                        .log_beta2 = static_cast<float>(std::log(beta2)),
                        .eps = static_cast<float>(args.attributes.real("eps")),
                        .weight_decay = static_cast<float>(args.attributes.real("weight_decay"))};
    cuda::map(slice.end - slice.begin, body, args.stream);
  });
}

}  // namespace spillway::ops
