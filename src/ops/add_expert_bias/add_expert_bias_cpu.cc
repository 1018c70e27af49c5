// The kernels are bound by memory: each row is read once.
#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/add_expert_bias/add_expert_bias_cpu.cc"
#include <hwy/foreach_target.h>

#include <algorithm>

#include "base/error.h"
#include "base/math.h"
#include "ops/add_expert_bias/operands.h"
#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

void check_offsets(const TensorView& offsets, int64_t rows) {
  const auto* const at = offsets.as<int32_t>();
  for (int64_t e = 0; e + 1 < offsets.elems(); ++e)
    SPILLWAY_CHECK(at[e] >= 0 && at[e] <= at[e + 1] && at[e + 1] <= rows, "rows {} to {} of {}", at[e], at[e + 1],
                   rows);
}

template <typename T, typename B>
void add_to_rows(const KernelArgs& args, int64_t begin, int64_t end) {
  using namespace add_expert_bias_op;
  const TensorView& bias = args.inputs[kBias];
  const auto* const offsets = args.inputs[kOffsets].as<int32_t>();
  const int64_t experts = bias.shape[0], width = bias.shape[1];
  int64_t expert = std::upper_bound(offsets, offsets + experts + 1, begin) - offsets - 1;
  const auto add = [](Vector a, Vector b) HWY_ATTR { return hn::Add(a, b); };
  for (int64_t row = begin; row < end; ++row) {
    while (expert + 1 < experts && row >= offsets[expert + 1]) ++expert;
    map(0, width, add, args.outputs[0].as<T>() + row * width, args.inputs[kRows].as<T>() + row * width,
        bias.as<B>() + expert * width);
  }
}

void add_expert_bias(const KernelArgs& args) {
  using namespace add_expert_bias_op;
  const TensorView& rows = args.inputs[kRows];
  const int64_t width = args.inputs[kBias].shape[1], count = rows.elems() / width;
  check_offsets(args.inputs[kOffsets], count);
  with_real(rows.dtype, [&]<typename T>(T*) {
    with_real(args.inputs[kBias].dtype, [&]<typename B>(B*) {
      args.threads->parallel_for(count, row_grain(width),
                                 [&](int64_t begin, int64_t end, int) { add_to_rows<T, B>(args, begin, end); });
    });
  });
}

// Writes the sums of columns [begin, end) of an expert's rows.
template <typename T, typename Out>
void sum_columns(const KernelArgs& args, int64_t expert, int64_t begin, int64_t end) {
  using namespace add_expert_bias_op;
  const TensorView& out = args.outputs[0];
  const auto* const offsets = args.inputs[kGradOffsets].as<int32_t>();
  const int64_t width = out.shape[1];
  for (int64_t column = begin; column < end; column += lanes()) {
    const int64_t count = std::min(lanes(), end - column);
    Vector total = zero();
    for (int64_t row = offsets[expert]; row < offsets[expert + 1]; ++row) {
      const T* const from = args.inputs[kDy].as<T>() + row * width + column;
      total = hn::Add(total, count == lanes() ? load(from) : load_some(from, count));
    }
    Out* const to = out.as<Out>() + expert * width + column;
    count == lanes() ? store(total, to) : store_some(total, to, count);
  }
}

void add_expert_bias_grad(const KernelArgs& args) {
  using namespace add_expert_bias_op;
  constexpr int64_t kColumns = 256;  // of a piece of work
  const TensorView &dy = args.inputs[kDy], &out = args.outputs[0];
  const int64_t width = out.shape[1], pieces = div_ceil(width, kColumns);
  check_offsets(args.inputs[kGradOffsets], dy.elems() / width);
  with_real(dy.dtype, [&]<typename T>(T*) {
    with_real(out.dtype, [&]<typename Out>(Out*) {
      args.threads->parallel_for(out.shape[0] * pieces, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t piece = begin; piece < end; ++piece) {
          const int64_t first = piece % pieces * kColumns;
          sum_columns<T, Out>(args, piece / pieces, first, std::min(first + kColumns, width));
        }
      });
    });
  });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(add_expert_bias);
HWY_EXPORT(add_expert_bias_grad);
void add_expert_bias_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(add_expert_bias)(args); }
void add_expert_bias_grad_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(add_expert_bias_grad)(args); }
}  // namespace spillway::ops
#endif
