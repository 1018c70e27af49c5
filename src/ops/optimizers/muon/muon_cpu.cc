// The kernels are bound by the products of the update, 5 times 6 m m n flops of a matrix [m, n] that is no taller than
// wide; besides, these kernels move 30 bytes per parameter with f32 gradients and a bf16 working copy.
#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/optimizers/muon/muon_cpu.cc"
#include <hwy/foreach_target.h>

#include <cmath>

#include "ops/optimizers/muon/numbers.h"
#include "ops/optimizers/update-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

void muon_momentum(const KernelArgs& args) {
  using namespace muon_momentum_op;
  const TensorView &gradients = args.inputs[kGradient], &clip_view = args.inputs[kClip], &last = args.inputs[kBuffer];
  const MuonMeans n = muon_means(args.attributes);
  const Vector clip = constant(clip_view.data ? *clip_view.as<float>() : 1);
  with_real(gradients.dtype, [&]<typename T>(T*) {
    args.threads->parallel_for(gradients.elems(), kElementGrain, [&](int64_t begin, int64_t end, int) HWY_ATTR {
      for (int64_t i = begin; i < end; i += lanes()) {
        const int64_t count = std::min(lanes(), end - i);
        const Vector g = hn::Mul(load_lanes(gradients.as<T>() + i, count), clip);
        Vector m = load_lanes(last.as<float>() + i, count);
        m = hn::Add(m, hn::Mul(hn::Sub(g, m), constant(n.one_minus_momentum)));
        store_lanes(m, args.outputs[0].as<float>() + i, count);
        const Vector direction = hn::Add(m, hn::Mul(hn::Sub(g, m), constant(n.of_gradient)));
        store_lanes(direction, args.outputs[1].as<bf16>() + i, count);
      }
    });
  });
}

void muon_normalise(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  const Vector norm = constant(muon_norm(*args.inputs[1].as<float>()));
  args.threads->parallel_for(x.elems(), kElementGrain, [&](int64_t begin, int64_t end, int) HWY_ATTR {
    map(
        begin, end, [&](Vector v) HWY_ATTR { return hn::Div(v, norm); }, y.as<bf16>(), x.as<bf16>());
  });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(muon_momentum);
HWY_EXPORT(muon_normalise);
void muon_momentum_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(muon_momentum)(args); }
void muon_normalise_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(muon_normalise)(args); }
}  // namespace spillway::ops
#endif
