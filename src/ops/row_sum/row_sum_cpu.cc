#include <algorithm>

#include "backend/kernel.h"

namespace spillway::ops {

void row_sum_cpu(const KernelArgs& args) {
  const TensorView& x = args.inputs[0];
  double sum = 0;
  for (int64_t i = 0; i < x.elems(); ++i) sum += double{x.as<float>()[i]};
  if (args.attributes.integer("mean") != 0) sum /= static_cast<double>(std::max<int64_t>(1, x.elems()));
  *args.outputs[0].as<float>() = static_cast<float>(sum);
}

void row_sum_grad_cpu(const KernelArgs& args) {
  const TensorView& dx = args.outputs[0];
  const float dy = *args.inputs[0].as<float>();
  const bool is_mean = args.attributes.integer("mean") != 0;
  std::fill_n(dx.as<float>(), dx.elems(), is_mean ? dy / static_cast<float>(dx.elems()) : dy);
}

}  // namespace spillway::ops
