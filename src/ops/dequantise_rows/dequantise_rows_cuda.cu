// Bound by memory: each code is read, its element written (3 bytes in bf16). Codes are read one by one. Not yet
// measured.
#include "backend/cuda/map.cuh"
#include "backend/kernel.h"
#include "ops/real.h"

namespace spillway::ops {
namespace {

template <typename T>
struct DequantiseRows {
  static constexpr int kWidth = cuda::kVector<T>;
  const int8_t* codes;
  const float* scales;
  T* out;
  int64_t columns;

  __device__ void operator()(cuda::Span<kWidth> span) const {
    cuda::Floats<kWidth> values;
    for (int i = 0; i < kWidth; ++i) {
      const int64_t at = span.begin + i;
      values[i] = i < span.count ? static_cast<float>(codes[at]) * scales[at / columns] : 0.0f;
    }
    cuda::store(values, out, span);
  }
};

}  // namespace

void dequantise_rows_cuda(const KernelArgs& args) {
  const TensorView &codes = args.inputs[0], &scales = args.inputs[1], &out = args.outputs[0];
  with_real(out.dtype, [&]<typename T>(T*) {
    cuda::map(codes.elems(), DequantiseRows<T>{codes.as<int8_t>(), scales.as<float>(), out.as<T>(), codes.shape[1]},
              args.stream);
  });
}

}  // namespace spillway::ops
