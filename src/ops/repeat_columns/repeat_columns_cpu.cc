#include <algorithm>
#include <type_traits>

#include "backend/kernel.h"
#include "base/parallel.h"
#include "ops/real.h"

namespace spillway::ops {
namespace {

constexpr int64_t kRepeatGrain = 1 << 14;

int64_t grain(const TensorView& wide) {
  return std::max<int64_t>(1, kRepeatGrain / std::max<int64_t>(1, wide.shape[1]));
}

}  // namespace

void repeat_columns_cpu(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &out = args.outputs[0];
  const int64_t width = x.shape[1], wide = out.shape[1];
  with_real(x.dtype, [&]<typename T>(T*) {
    args.threads->parallel_for(x.shape[0], grain(out), [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row)
        for (int64_t at = 0; at < wide; at += width)
          std::copy_n(x.as<T>() + row * width, width, out.as<T>() + row * wide + at);
    });
  });
}

void sum_repeated_cpu(const KernelArgs& args) {
  const TensorView &dy = args.inputs[0], &out = args.outputs[0];
  const int64_t width = out.shape[1], wide = dy.shape[1];
  with_real(dy.dtype, [&]<typename T>(T*) {
    args.threads->parallel_for(dy.shape[0], grain(dy), [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        const T* const from = dy.as<T>() + row * wide;
        for (int64_t column = 0; column < width; ++column) {
          float sum = 0;
          for (int64_t at = column; at < wide; at += width) sum += to_float(from[at]);
          if constexpr (std::is_same_v<T, bf16>) {
            out.as<T>()[row * width + column] = to_bf16(sum);
          } else {
            out.as<T>()[row * width + column] = sum;
          }
        }
      }
    });
  });
}

}  // namespace spillway::ops
