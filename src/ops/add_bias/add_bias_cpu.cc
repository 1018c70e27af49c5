#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/add_bias/add_bias_cpu.cc"
#include <hwy/foreach_target.h>

#include <algorithm>

#include "ops/column_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

void add_bias(const KernelArgs& args) {
  const TensorView &y = args.inputs[0], &bias = args.inputs[1], &out = args.outputs[0];
  const int64_t width = y.shape[1];
  with_real(y.dtype, [&]<typename T>(T*) {
    with_real(bias.dtype, [&]<typename B>(B*) {
      args.threads->parallel_for(y.shape[0], row_grain(width), [&](int64_t begin, int64_t end, int) HWY_ATTR {
        const auto plus = [](Vector a, Vector b) HWY_ATTR { return hn::Add(a, b); };
        for (int64_t at = begin * width; at < end * width; at += width) {
          map(0, width, plus, out.as<T>() + at, y.as<T>() + at, bias.as<B>());
        }
      });
    });
  });
}

void add_bias_grad(const KernelArgs& args) {
  const TensorView& dy = args.inputs[0];
  const int64_t rows = dy.shape[0], width = dy.shape[1], block_rows = rows_of_block(rows);
  const int64_t blocks = div_ceil(rows, block_rows);
  auto* partial = reinterpret_cast<float*>(args.workspace);
  with_real(dy.dtype, [&]<typename T>(T*) {
    args.threads->parallel_for(blocks, 1, [&](int64_t begin, int64_t end, int) HWY_ATTR {
      const auto plus = [](Vector a, Vector b) HWY_ATTR { return hn::Add(a, b); };
      for (int64_t block = begin; block < end; ++block) {
        float* sums = partial + block * width;
        std::fill(sums, sums + width, 0.0f);
        for (int64_t row = block * block_rows; row < std::min(rows, (block + 1) * block_rows); ++row) {
          map(0, width, plus, sums, sums, dy.as<T>() + row * width);
        }
      }
    });
  });
  add_blocks(partial, blocks, args.inputs[1], args.outputs[0], *args.threads);
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(add_bias);
HWY_EXPORT(add_bias_grad);
void add_bias_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(add_bias)(args); }
void add_bias_grad_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(add_bias_grad)(args); }
}  // namespace spillway::ops
#endif
