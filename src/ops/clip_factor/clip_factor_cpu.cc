#include <algorithm>
#include <cmath>

#include "backend/kernel.h"

namespace spillway::ops {

void clip_factor_cpu(const KernelArgs& args) {
  double sum = 0;
  for (const TensorView& squared : args.inputs) sum += *squared.as<float>();
  const double norm = std::sqrt(sum), max_norm = args.attributes.real("max_norm");
  const double factor = max_norm > 0 ? std::min(1.0, max_norm / (norm + 1e-6)) : 1.0;
  *args.outputs[0].as<float>() = static_cast<float>(factor);
  *args.outputs[1].as<float>() = static_cast<float>(norm);
}

}  // namespace spillway::ops
