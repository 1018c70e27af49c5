#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/gated_add/gated_add_cpu.cc"
#include <hwy/foreach_target.h>

#include "ops/gated_add/operands.h"
#include "ops/modulation/sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

template <typename T>
void gated_add_row(const T* h, const T* x, const float* gate, int64_t width, T* out) {
  if (gate == nullptr) {
    map(
        0, width, [](Vector v) HWY_ATTR { return v; }, out, h);
  } else {
    const auto sum = [](Vector a, Vector v, Vector g) HWY_ATTR { return hn::MulAdd(v, g, a); };
    map(0, width, sum, out, h, x, gate);
  }
}

// The forward kernel; bound by memory.
void gated_add(const KernelArgs& args) {
  using namespace gated_add_op;
  const TensorView &h = args.inputs[kH], &x = args.inputs[kX], &out = args.outputs[0];
  const ModulationRows modulation(h, args.inputs[kModulation], args.inputs[kSeqOffsets], kMaxCpuBlocks);
  const int64_t width = h.shape[1], part = args.attributes.integer("part");
  with_real(h.dtype, [&]<typename T>(T*) {
    args.threads->parallel_for(h.shape[0], row_grain(width), [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        const float* gate = modulation.part_of(modulation.blocks.sequence_of(row), part);
        gated_add_row(h.as<T>() + row * width, x.as<T>() + row * width, gate, width, out.as<T>() + row * width);
      }
    });
  });
}

// Computes dx = dy * gate, and adds dy * x to the gate's gradient, if it is wanted.
template <typename T>
void gated_add_grad_row(const T* x, const T* dy, const float* gate, int64_t width, T* dx, float* d_gate) {
  if (d_gate != nullptr) {
    const auto more = [](Vector sums, Vector v, Vector d) HWY_ATTR { return hn::MulAdd(v, d, sums); };
    map(0, width, more, d_gate, d_gate, x, dy);
  }
  if (gate == nullptr) {
    map(
        0, width, [](Vector) HWY_ATTR { return zero(); }, dx, dy);
  } else {
    const auto product = [](Vector d, Vector g) HWY_ATTR { return hn::Mul(d, g); };
    map(0, width, product, dx, dy, gate);
  }
}

void gated_add_grad(const KernelArgs& args) {
  using namespace gated_add_op;
  const TensorView &x = args.inputs[kGradX], &dy = args.inputs[kGradDy], &dx = args.outputs[0];
  const ModulationRows modulation(x, args.inputs[kGradModulation], args.inputs[kGradSeqOffsets], kMaxCpuBlocks);
  const int64_t width = x.shape[1], part = args.attributes.integer("part");
  auto* const sums = args.outputs.size() > 1 ? reinterpret_cast<float*>(args.workspace) : nullptr;
  args.threads->parallel_for(modulation.blocks.bound(), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t index = begin; index < end; ++index) {
      const TokenBlock block = modulation.blocks[index];
      const float* gate = modulation.part_of(block.sequence, part);
      float* d_gate = sums == nullptr ? nullptr : sums + index * width;
      if (d_gate != nullptr) std::fill_n(d_gate, width, 0.0f);
      with_real(x.dtype, [&]<typename T>(T*) {
        for (int64_t at = block.begin * width; at < block.end * width; at += width)
          gated_add_grad_row(x.as<T>() + at, dy.as<T>() + at, gate, width, dx.as<T>() + at, d_gate);
      });
    }
  });
  if (sums == nullptr) return;
  const PartSums of_gate{part, sums};
  add_parts(modulation, {&of_gate, 1}, args.inputs[kGradAddend], args.outputs[1], *args.threads);
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(gated_add);
HWY_EXPORT(gated_add_grad);
void gated_add_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(gated_add)(args); }
void gated_add_grad_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(gated_add_grad)(args); }
}  // namespace spillway::ops
#endif
