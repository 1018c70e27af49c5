#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/mean_squared_error/mean_squared_error_cpu.cc"
#include <hwy/foreach_target.h>

#include <algorithm>

#include "ops/mean_squared_error/operands.h"
#include "ops/modulation/token_blocks.h"
#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

using namespace mean_squared_error_op;

// Calls f(a null P*, a null T*) for the types of prediction and target.
template <typename Function>
void with_types(const KernelArgs& args, const Function& f) {
  with_real(args.inputs[kPrediction].dtype, [&]<typename P>(P* prediction) {
    with_real(args.inputs[kTarget].dtype, [&]<typename T>(T* target) { f(prediction, target); });
  });
}

// The forward kernel. Squares of a row are added in f32, rows in f64, one after the other.
void mean_squared_error(const KernelArgs& args) {
  const TensorView &prediction = args.inputs[kPrediction], &weights = args.inputs[kWeights];
  const int64_t width = prediction.shape[1];
  auto* const of_rows = reinterpret_cast<double*>(args.workspace);
  with_types(args, [&]<typename P, typename T>(P*, T*) {
    args.threads->parallel_for(prediction.shape[0], row_grain(width), [&](int64_t begin, int64_t end, int) HWY_ATTR {
      const auto square = [](Vector p, Vector t) HWY_ATTR {
        const Vector d = hn::Sub(p, t);
        return hn::Mul(d, d);
      };
      for (int64_t row = begin; row < end; ++row) {
        of_rows[row] = sum(width, square, prediction.as<P>() + row * width, args.inputs[kTarget].as<T>() + row * width);
      }
    });
  });
  const auto* offsets = args.inputs[kSeqOffsets].as<int32_t>();
  double loss = 0;
  for (int64_t s = 0; s < weights.shape[0]; ++s) {
    double squares = 0;
    const int64_t end = std::min<int64_t>(offsets[s + 1], prediction.shape[0]);
    for (int64_t row = std::max(offsets[s], 0); row < end; ++row) squares += of_rows[row];
    const int64_t elems = (offsets[s + 1] - offsets[s]) * width;
    const double mean = elems > 0 ? squares / static_cast<double>(elems) : 0;
    args.outputs[1].as<float>()[s] = static_cast<float>(mean);
    loss += double{weights.as<float>()[s]} * mean;
  }
  *args.outputs[0].as<float>() = static_cast<float>(loss);
}

void mean_squared_error_grad(const KernelArgs& args) {
  const TensorView &prediction = args.inputs[kPrediction], &weights = args.inputs[kWeights];
  const TensorView& dy = args.inputs[kDy];
  const int64_t width = prediction.shape[1];
  const TokenBlocks blocks(prediction.shape[0], args.inputs[kSeqOffsets].as<int32_t>(), weights.shape[0], 1);
  const double scale = dy.data == nullptr ? 2.0 : 2.0 * double{*dy.as<float>()};
  with_types(args, [&]<typename P, typename T>(P*, T*) {
    args.threads->parallel_for(prediction.shape[0], row_grain(width), [&](int64_t begin, int64_t end, int) HWY_ATTR {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t sequence = blocks.sequence_of(row), at = row * width;
        float factor = 0;
        if (sequence >= 0) {
          const auto elems = static_cast<double>((blocks.end_of(sequence) - blocks.begin_of(sequence)) * width);
          factor = static_cast<float>(scale * double{weights.as<float>()[sequence]} / elems);
        }
        const auto gradient = [factor](Vector p, Vector t)
                                  HWY_ATTR { return hn::Mul(hn::Sub(p, t), constant(factor)); };
        map(0, width, gradient, args.outputs[0].as<P>() + at, prediction.as<P>() + at,
            args.inputs[kTarget].as<T>() + at);
      }
    });
  });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(mean_squared_error);
HWY_EXPORT(mean_squared_error_grad);
void mean_squared_error_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(mean_squared_error)(args); }
void mean_squared_error_grad_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(mean_squared_error_grad)(args); }
}  // namespace spillway::ops
#endif
