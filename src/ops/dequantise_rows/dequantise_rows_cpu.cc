#include <algorithm>

#include "backend/kernel.h"
#include "base/parallel.h"
#include "ops/real.h"

namespace spillway::ops {
namespace {

void store(float value, float* to) { *to = value; }
void store(float value, bf16* to) { *to = to_bf16(value); }

}  // namespace

void dequantise_rows_cpu(const KernelArgs& args) {
  constexpr int64_t kGrainElems = int64_t{1} << 14;
  const TensorView &codes = args.inputs[0], &scales = args.inputs[1], &out = args.outputs[0];
  const int64_t rows = codes.shape[0], columns = codes.shape[1];
  const int64_t grain = std::max<int64_t>(1, kGrainElems / std::max<int64_t>(1, columns));
  with_real(out.dtype, [&]<typename T>(T*) {
    args.threads->parallel_for(rows, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        const float scale = scales.as<float>()[row];
        const int8_t* from = codes.as<int8_t>() + row * columns;
        T* to = out.as<T>() + row * columns;
        for (int64_t i = 0; i < columns; ++i) store(static_cast<float>(from[i]) * scale, to + i);
      }
    });
  });
}

}  // namespace spillway::ops
