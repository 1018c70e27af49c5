// Bound by memory: 22 bytes per parameter with momentum, f32 gradients and a bf16 working copy (read p, momentum, g;
// write p, momentum and the copy). Not yet measured.
//
// Compiled without fusing, so that the bits are those of sgd_cpu.cc.
#include "backend/cuda/map.cuh"
#include "backend/kernel.h"
#include "ops/real.h"
#include "ops/row_slice.cuh"

namespace spillway::ops {
namespace {

// Null pointers stand for what is absent.
template <typename Gradient>
struct Sgd {
  static constexpr int kWidth = cuda::kVector<float, Gradient>;
  const float *p_in, *buffer_in;
  const Gradient* gradient;
  float *p, *buffer;
  bf16* copy;         // gets p rounded; null where p is the weight
  const float* clip;  // null: 1
  const float* learning_rate;
  float momentum, weight_decay;

  __device__ void operator()(cuda::Span<kWidth> span) const {
    using cuda::load, cuda::store;
    const float rate = *learning_rate, factor = clip != nullptr ? *clip : 1.0f;
    cuda::Floats<kWidth> next_p = load(p_in, span), next_buffer = {};
    if (buffer != nullptr) next_buffer = load(buffer_in, span);
    const cuda::Floats<kWidth> gradients = load(gradient, span);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float decayed = next_p[i] * weight_decay + gradients[i] * factor;
      next_buffer[i] = next_buffer[i] * momentum + decayed;
      next_p[i] -= rate * next_buffer[i];
    }
    store(next_p, p, span);
    if (buffer != nullptr) store(next_buffer, buffer, span);
    if (copy != nullptr) store(next_p, copy, span);
  }
};

}  // namespace

void sgd_cuda(const KernelArgs& args) {
  const TensorView &weight_in = args.inputs[0], &weight = args.outputs[0], &buffer = args.inputs[4],
                   &master = args.inputs[5];
  const bool has_master = master.data != nullptr;
  const ElementRange slice = elements_of(slice_of(args.attributes), weight.shape);
  copy_other_rows(weight_in, weight, slice, args.stream);
  with_real(args.inputs[1].dtype, [&]<typename T>(T*) {
    const Sgd<T> body{.p_in = has_master ? master.as<float>() : weight_in.as<float>() + slice.begin,
                      .buffer_in = buffer.as<float>(),
                      .gradient = args.inputs[1].as<T>() + slice.begin,
                      .p = has_master ? args.outputs.back().as<float>() : weight.as<float>() + slice.begin,
                      .buffer = buffer.data != nullptr ? args.outputs[1].as<float>() : nullptr,
                      .copy = has_master ? weight.as<bf16>() + slice.begin : nullptr,
                      .clip = args.inputs[3].as<float>(),
                      .learning_rate = args.inputs[2].as<float>(),
                      .momentum = static_cast<float>(args.attributes.real("momentum")),
                      .weight_decay = static_cast<float>(args.attributes.real("weight_decay"))};
    cuda::map(slice.end - slice.begin, body, args.stream);
  });
}

}  // namespace spillway::ops
