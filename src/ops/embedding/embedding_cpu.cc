#include "base/sizes.h"
#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/embedding/embedding_cpu.cc"
#include <hwy/foreach_target.h>

#include <algorithm>

#include "base/math.h"
#include "ops/embedding/operands.h"
#include "ops/embedding/padding.h"
#include "ops/memory.h"
#include "ops/real_or.h"
#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

float scale_of(const KernelArgs& args) { return static_cast<float>(real_or(args.attributes, "scale", 1)); }

void scale_row(const TensorView& table, int64_t from, const TensorView& out, int64_t to, float scale) {
  const int64_t width = table.shape[1];
  const auto scaled = [scale](Vector v) HWY_ATTR { return hn::Mul(v, constant(scale)); };
  with_real(table.dtype,
            [&]<typename T>(T*) { map(0, width, scaled, out.as<T>() + to * width, table.as<T>() + from * width); });
}

void embedding(const KernelArgs& args) {
  using namespace embedding_op;
  const TensorView &ids = args.inputs[kIds], &table = args.inputs[kTable], &out = args.outputs[0];
  const int64_t row_bytes = table.shape[1] * size_of(table.dtype);
  const float scale = scale_of(args);
  args.threads->parallel_for(out.shape[0], row_grain(table.shape[1]), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t id = ids.as<int32_t>()[row];
      SPILLWAY_CHECK(id >= 0 && id < table.shape[0], "token {} of a vocabulary of {}", id, table.shape[0]);
      if (scale != 1) {
        scale_row(table, id, out, row, scale);
        continue;
      }
      copy_memory(out.as<std::byte>() + row * row_bytes, table.as<std::byte>() + id * row_bytes, row_bytes);
    }
  });
}

// Each thread adds all tokens, in order, into its own columns: no two threads meet, whatever their number.
template <typename D, typename G>
void scatter_add(const KernelArgs& args, float scale, int64_t begin, int64_t end) {
  using namespace embedding_op;
  const TensorView &ids = args.inputs[kIds], &dy = args.inputs[kDy], &out = args.outputs[0];
  const int64_t padding = padding_idx(args.attributes);
  const int64_t width = out.shape[1];
  for (int64_t row = 0; row < dy.shape[0]; ++row) {
    const int64_t id = ids.as<int32_t>()[row];
    SPILLWAY_CHECK(id >= 0 && id < out.shape[0], "token {} of a vocabulary of {}", id, out.shape[0]);
    if (id == padding) continue;
    G* to = out.as<G>() + id * width;
    const auto plus = [scale](Vector a, Vector b) HWY_ATTR { return hn::MulAdd(b, constant(scale), a); };
    map(begin, end, plus, to, to, dy.as<D>() + row * width);
  }
}

void embedding_grad(const KernelArgs& args) {
  using namespace embedding_op;
  const TensorView &dy = args.inputs[kDy], &addend = args.inputs[kAddend], &out = args.outputs[0];
  if (addend.data != nullptr) {
    copy_tensor(addend, out, *args.threads);
  } else {
    zero_tensor(out, *args.threads);
  }
  constexpr int64_t kColumns = 64;
  const float scale = scale_of(args);
  with_real(dy.dtype, [&]<typename D>(D*) {
    with_real(out.dtype, [&]<typename G>(G*) {
      args.threads->parallel_for(div_ceil(out.shape[1], kColumns), 1, [&](int64_t begin, int64_t end, int) {
        scatter_add<D, G>(args, scale, begin * kColumns, std::min(out.shape[1], end * kColumns));
      });
    });
  });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(embedding);
HWY_EXPORT(embedding_grad);
void embedding_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(embedding)(args); }
void embedding_grad_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(embedding_grad)(args); }
}  // namespace spillway::ops
#endif
