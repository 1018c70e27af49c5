#include <algorithm>

#include "base/math.h"
#include "base/parallel.h"
#include "ops/narrow_rows/operands.h"
#include "ops/narrow_rows/rounding.h"
#include "ops/row_slice.h"

namespace spillway::ops {
namespace {

constexpr int64_t kNarrowGrain = int64_t{1} << 14;

}  // namespace

void widen_rows_cpu(const KernelArgs& args) {
  const ElementRange slice = elements_of(slice_of(args.attributes), args.inputs[0].shape);
  const bf16* const from = args.inputs[0].as<bf16>() + slice.begin;
  float* const to = args.outputs[0].as<float>();
  args.threads->parallel_for(slice.end - slice.begin, kNarrowGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) to[i] = to_float(from[i]);
  });
}

void narrow_rows_cpu(const KernelArgs& args) {
  using namespace narrow_rows_op;
  const TensorView &x = args.inputs[kX], &out = args.outputs[0];
  const ElementRange slice = elements_of(slice_of(args.attributes), x.shape);
  copy_other_rows(x, out, slice, *args.threads);
  const float* const from = args.inputs[kValues].as<float>();
  bf16* const to = out.as<bf16>() + slice.begin;
  const RoundingKey key(args.attributes);
  const uint64_t step_key = key.is_stochastic ? key.of_step(*args.inputs[kStep].as<int32_t>()) : 0;
  args.threads->parallel_for(slice.end - slice.begin, kNarrowGrain, [&](int64_t begin, int64_t end, int) {
    if (!key.is_stochastic) {
      for (int64_t i = begin; i < end; ++i) to[i] = to_bf16(from[i]);
      return;
    }
    for (int64_t i = begin; i < end;) {
      const int64_t at = slice.begin + i;  // in the whole tensor
      const int64_t next = std::min(slice.begin + end, (at / kRoundedTogether + 1) * kRoundedTogether);
      round_block(from + i, at, next, step_key, key.stream, to + i);
      i += next - at;
    }
  });
}

}  // namespace spillway::ops
