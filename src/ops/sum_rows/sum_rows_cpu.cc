#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/sum_rows/sum_rows_cpu.cc"
#include <hwy/foreach_target.h>

#include <algorithm>

#include "ops/column_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

void sum_rows(const KernelArgs& args) {
  const TensorView& x = args.inputs[0];
  const int64_t rows = x.shape[0], width = x.shape[1], block_rows = rows_of_block(rows);
  const int64_t blocks = div_ceil(rows, block_rows);
  auto* partial = reinterpret_cast<float*>(args.workspace);
  with_real(x.dtype, [&]<typename T>(T*) {
    args.threads->parallel_for(blocks, 1, [&](int64_t begin, int64_t end, int) HWY_ATTR {
      const auto plus = [](Vector a, Vector b) HWY_ATTR { return hn::Add(a, b); };
      for (int64_t block = begin; block < end; ++block) {
        float* sums = partial + block * width;
        std::fill(sums, sums + width, 0.0f);
        for (int64_t row = block * block_rows; row < std::min(rows, (block + 1) * block_rows); ++row) {
          map(0, width, plus, sums, sums, x.as<T>() + row * width);
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
HWY_EXPORT(sum_rows);
void sum_rows_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(sum_rows)(args); }
}  // namespace spillway::ops
#endif
